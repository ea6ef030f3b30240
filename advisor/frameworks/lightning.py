"""Lightning: a callback that profiles ``Trainer.fit``."""

from typing import Any

from advisor.base.installation import install_extra
from advisor.frameworks.watching import Profiled

try:
    from lightning import pytorch as pl
except ImportError:
    raise ImportError(f"advisor.frameworks.lightning needs Lightning: {install_extra('lightning')}") from None


class ProfileCallback(Profiled, pl.Callback):
    """Profiles the first steps of each ``Trainer.fit``; the rest runs unwatched.

    Give it to ``Trainer(callbacks=[...])``; after the training its ``result`` shows itself.
    In several processes each profiles itself, and the first one writes the report.

    Args:
        steps: Steps to profile.
        wait: Steps that pass before the warm-up.
        warmup: Steps that pass before the profiled ones.
        out: Folder for the report; none is written by default.

    Raises:
        UsageError: A number is out of range (a ValueError).
    """

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to watch."""
        self._watching.begin()

    def on_train_batch_end(self, trainer: Any, *arguments: Any, **named: Any) -> None:
        """A batch was trained on."""
        self._watching.step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Take everything off, and conclude."""
        self._watching.end(writes=trainer.is_global_zero)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Take everything off."""
        self._watching.end(exception)
