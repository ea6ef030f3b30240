"""Checkpoints that the program writes: a flag on the step, how often, where, and the seconds they took."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from advisor.profiles.events import Run
from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.imports import after_import
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.step.evaluations import Evaluations
from advisor.profiles.hooks.user_lines import user_location


class Saves:
    """Times ``torch.save`` and, once it is imported, ``safetensors.torch.save_file``.

    Files written by other means are not seen. Saves between two steps count as one.

    Args:
        evaluations: Told of the time, which is no part of an evaluation beside it.

    Attributes:
        seconds: Wall time spent so far, since the first step.
        count: Steps since the first one with a save after them.
    """

    def __init__(self, run: Run, clock: Clock, scope: Scope, evaluations: Evaluations | None = None) -> None:
        import torch

        self._clock = clock
        self._scope = scope
        self._evaluations = evaluations
        self._inside = False
        self._on = False
        self._first_step = 0
        self._last_step: int | None = None
        self._location: Location | None = None
        self.seconds = 0.0
        self.count = 0
        self.patches = [Patch(torch, "save", self._wrap), Patch(torch.serialization, "save", self._wrap)]

    def install(self) -> None:
        """Watch saving from now on."""
        self._on = True
        for patch in self.patches:
            patch.install()
        after_import("safetensors.torch", self._watch)

    def remove(self) -> None:
        """Stop watching."""
        self._on = False
        for patch in self.patches:
            patch.remove()

    def facts(self) -> dict[str, Any]:
        """Fields of ``RunFacts``."""
        every = None
        if self._last_step is not None and self.count > 1:
            every = (self._last_step - self._first_step) / (self.count - 1)
        return {
            "save_s": self.seconds,
            "saves": self.count,
            "save_every": every,
            "save_location": self._location,
        }

    def _watch(self, module: ModuleType) -> None:
        if self._on and hasattr(module, "save_file"):
            patch = Patch(module, "save_file", self._wrap)
            self.patches.append(patch)
            patch.install()

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
                self._count(self._clock.pop())

        return save

    def _count(self, spent_ns: int) -> None:
        if self._evaluations is not None:
            self._evaluations.leave_out(spent_ns)
        if self._location is None:
            self._location = user_location()
        if self._clock.first_tick_ns is None:
            return
        self.seconds += spent_ns / 1e9
        step = self._clock.steps
        if step != self._last_step:
            self._first_step = self._first_step if self.count else step
            self._last_step = step
            self.count += 1
