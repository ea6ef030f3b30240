"""IPython magics: ``%%advise`` profiles a cell that trains, ``%advise STATEMENT`` one statement."""

import ast
import re
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError as MagicError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.display import display

from advisor.base.errors import AdvisorError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from advisor.report.profile_result import ProfileResult

NAME = "advise"
OPTION = re.compile(r"\s*--(steps|wait|warmup)(?:=|\s+)(\S+)")


@magics_class
class AdvisorMagics(Magics):
    """The magics of ``%load_ext advisor``. They start nothing in the background."""

    @line_cell_magic(NAME)  # type: ignore[arg-type]  # IPython's own annotation accepts no function
    def advise(self, line: str, cell: str | None = None) -> "ProfileResult":
        """Profile the training loop of a cell, or of one statement, and show what is slow in it.

        A step ends with ``optimizer.step()``, else with ``backward()``. The first ones pass as warm-up; when
        enough were seen the rest runs unwatched. An interrupt ends the cell and shows what was seen. Usage::

            %%advise [--steps=20] [--wait=0] [--warmup=3]
            %advise [--steps=20] [--wait=0] [--warmup=3] train(model)
        """
        from advisor.runs.in_process import LoopProfile

        numbers, statement = read_options(line)
        if cell is not None and statement:
            raise MagicError("a statement cannot stand behind %%advise: write it below")
        if cell is None and not statement:
            raise MagicError("%advise needs a statement: `%advise train(model)`; %%advise profiles a cell")
        is_running = interrupted = False
        value = None
        try:
            with LoopProfile(marked=False, **numbers) as loop:
                is_running = True
                try:
                    value = self._run(statement if cell is None else cell)
                except KeyboardInterrupt:
                    interrupted = True
                is_running = False
        except AdvisorError as error:
            if is_running:  # the cell's own
                raise
            raise MagicError(str(error)) from None
        if value is not None:
            display(value)
        if interrupted:
            loop.result.data.budget.stopped_by = "interrupted"
        return loop.result

    def _run(self, source: str) -> Any:
        """Run code as a cell would; the value of a last expression that no semicolon hides."""
        shell = self.shell
        assert shell is not None
        transformed = shell.transform_cell(source)
        name = shell.compile.cache(transformed, shell.execution_count, raw_code=source)
        tree = shell.transform_ast(shell.compile.ast_parse(transformed, filename=name))
        flags = shell.compile.compiler_flags
        last = tree.body[-1] if tree.body and not source.rstrip().endswith(";") else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, name, "exec", flags, dont_inherit=True), shell.user_ns)
        if not isinstance(last, ast.Expr):
            return None
        shown = compile(ast.Expression(last.value), name, "eval", flags, dont_inherit=True)
        return eval(shown, shell.user_ns)


def read_options(line: str) -> tuple[dict[str, int], str]:
    """The options at the front of a magic's line, and the statement behind them."""
    numbers: dict[str, int] = {}
    while (found := OPTION.match(line)) is not None:
        name, text = found.groups()
        if not text.isdecimal():
            raise MagicError(f"--{name} must be a whole number, got {text}")
        numbers[name] = int(text)
        line = line[found.end() :]
    statement = line.strip()
    if statement.startswith("--"):
        raise MagicError(f"unknown option {statement.split()[0]}; there are --steps, --wait and --warmup")
    return numbers, statement


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """``%load_ext advisor``."""
    shell.register_magics(AdvisorMagics)


def unload_ipython_extension(shell: "InteractiveShell") -> None:
    """``%unload_ext advisor``, also the first half of ``%reload_ext``."""
    manager = shell.magics_manager
    for kind in manager.magics.values():
        kind.pop(NAME, None)
    manager.registry.pop(AdvisorMagics.__name__, None)
