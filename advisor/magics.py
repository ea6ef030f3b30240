"""IPython magics: ``%%advise`` profiles a cell that trains, ``%advise STATEMENT`` one statement."""

import ast
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError as MagicError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.display import display

from advisor.errors import AdvisorError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from advisor.profile_result import ProfileResult

OPTIONS = ("steps=", "wait=", "warmup=")
NAME = "advise"


@magics_class
class AdvisorMagics(Magics):
    """The magics of ``%load_ext advisor``. Nothing runs in the background."""

    @line_cell_magic(NAME)
    def advise(self, line: str, cell: str | None = None) -> "ProfileResult | None":
        """Profile the training loop of a cell, or of one statement, and show what is slow in it.

        A step ends with ``optimizer.step()``, else with ``backward()``; the first ones pass as warm-up, and
        when enough were seen the rest runs as ever::

            %%advise [--steps=20] [--wait=0] [--warmup=3]
            %advise [--steps=20] [--wait=0] [--warmup=3] train(model)
        """
        from advisor.profile_of import profile

        options, statement = self.parse_options(
            line, "", *OPTIONS, posix=False, strict=False, preserve_non_opts=True
        )
        if cell is not None and statement.strip():
            raise MagicError("a statement cannot stand behind %%advise: write it below")
        if cell is None and not statement.strip():
            raise MagicError("%advise needs a statement; %%advise profiles a cell")
        return None


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """``%load_ext advisor``."""
    shell.register_magics(AdvisorMagics)


def unload_ipython_extension(shell: "InteractiveShell") -> None:
    """``%unload_ext advisor``, also the first half of ``%reload_ext``."""
