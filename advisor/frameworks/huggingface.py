"""Hugging Face: a callback that profiles ``Trainer.train``."""

from typing import Any, Self

from advisor.base.installation import install_extra
from advisor.frameworks.watching import Profiled

try:
    from transformers import TrainerCallback
except ImportError:
    raise ImportError(
        f"advisor.frameworks.huggingface needs transformers: {install_extra('huggingface')}"
    ) from None


class ProfileCallback(Profiled, TrainerCallback):
    """Profiles the first steps of each ``Trainer.train``; the rest runs unwatched.

    transformers tells no callback that a training failed: in ``with``, the watching ends also then::

        with ProfileCallback() as profiled:
            Trainer(..., callbacks=[profiled]).train()
        profiled.result

    Args:
        steps: Updates to profile.
        wait: Updates that pass before the warm-up.
        warmup: Updates that pass before the profiled ones.
        out: Folder for the report; none is written by default.

    Raises:
        UsageError: A number is out of range (a ValueError).
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """End the watching of a training that failed."""
        self._watching.end(error)

    def on_train_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """Begin to watch."""
        self._watching.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """An update was made."""
        self._watching.step()

    def on_train_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """Take everything off, and conclude."""
        self._watching.end(writes=state.is_world_process_zero)
