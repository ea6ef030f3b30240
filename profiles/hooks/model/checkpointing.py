"""Whether a program recomputes activations: torch's checkpointing, watched until its first use."""

from collections.abc import Callable
from typing import Any

from advisor.profiles.hooks.patches import Patch


class Checkpointing:
    """Watches what both kinds of ``torch.utils.checkpoint.checkpoint`` call inside.

    Never the function itself: dynamo knows it by identity, and programs hold it.

    Args:
        found: Called at the first use, which also ends the watching.
    """

    def __init__(self, found: Callable[[], None]) -> None:
        from torch.utils import checkpoint

        self._found = found
        self._patches = [
            Patch(checkpoint, "_checkpoint_without_reentrant_generator", self._wrap),
            Patch(checkpoint.CheckpointFunction, "forward", self._wrap),
        ]

    def install(self) -> None:
        """Watch from now on."""
        for patch in self._patches:
            patch.install()

    def remove(self) -> None:
        """Watch no longer."""
        for patch in self._patches:
            patch.remove()

    def _wrap(self, original: Any) -> Callable[..., Any]:
        function = original.__func__ if isinstance(original, staticmethod) else original

        def begin(*args: Any, **kwargs: Any) -> Any:
            if any(patch.installed for patch in self._patches):
                self.remove()
                self._found()
            return function(*args, **kwargs)

        return begin
