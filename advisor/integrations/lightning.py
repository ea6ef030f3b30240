"""Lightning: a callback that profiles ``Trainer.fit``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.integrations.watching import Watching

try:
    from lightning import pytorch as pl
except ImportError:
    raise ImportError(
        "advisor.integrations.lightning needs Lightning: pip install 'torch-advisor[lightning]'"
    ) from None

if TYPE_CHECKING:
    from advisor.profile_result import ProfileResult


class ProfileCallback(pl.Callback):
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

    def __init__(
        self, *, steps: int = 20, wait: int = 0, warmup: int = 3, out: str | Path | None = None
    ) -> None:
        super().__init__()
        self._watching = Watching(steps=steps, wait=wait, warmup=warmup, out=out)

    @property
    def result(self) -> "ProfileResult":
        """What was found in the last training.

        Raises:
            AdvisorError: Nothing was profiled; why not.
        """
        return self._watching.result

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
