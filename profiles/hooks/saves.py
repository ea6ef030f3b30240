"""Checkpoints written by ``torch.save``: a flag on the step, and the seconds they took."""

from collections.abc import Callable
from typing import Any

from advisor.profiles.hooks.clock import Clock
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.run import Run


class Saves:
    """Times ``torch.save``. Files written from C++ or Rust by other means are not seen.

    ``seconds`` is the wall time spent in it so far.
    """

    def __init__(self, run: Run, clock: Clock, scope: Scope) -> None:
        import torch

        self._clock = clock
        self._scope = scope
        self._inside = False
        self.seconds = 0.0
        self.patches = [Patch(torch, "save", self._wrap), Patch(torch.serialization, "save", self._wrap)]

    def install(self) -> None:
        """Watch ``torch.save`` from now on."""
        for patch in self.patches:
            patch.install()

    def remove(self) -> None:
        """Stop watching."""
        for patch in self.patches:
            patch.remove()

    def _wrap(self, original: Callable[..., None]) -> Callable[..., None]:
        def save(*args: Any, **kwargs: Any) -> None:
            if self._inside or not self._scope.here():
                return original(*args, **kwargs)
            self._clock.flag("save")
            self._clock.push("save")
            self._inside = True
            try:
                return original(*args, **kwargs)
            finally:
                self._inside = False
                self.seconds += self._clock.pop() / 1e9

        return save
