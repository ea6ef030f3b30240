"""Pauses of Python's garbage collector on the training thread."""

import gc
from time import perf_counter_ns
from typing import Any

from advisor.profiles.hooks.patches import Scope
from advisor.profiles.hooks.step.clock import Clock


class Garbage:
    """Times every collection since the first step, by ``gc.callbacks``."""

    def __init__(self, clock: Clock, scope: Scope) -> None:
        self._clock = clock
        self._scope = scope
        self._began_ns: int | None = None
        self.seconds = 0.0
        self.collections = 0

    def install(self) -> None:
        """Watch from now on."""
        gc.callbacks.append(self._called)

    def remove(self) -> None:
        """Watch no longer."""
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)

    def facts(self) -> dict[str, Any]:
        """Fields of ``RunFacts``."""
        return {"gc_s": self.seconds, "gc_collections": self.collections}

    def _called(self, phase: str, info: dict[str, int]) -> None:
        if not self._scope.here() or self._clock.first_tick_ns is None:
            self._began_ns = None
        elif phase == "start":
            self._began_ns = perf_counter_ns()
        elif self._began_ns is not None:
            self.seconds += (perf_counter_ns() - self._began_ns) / 1e9
            self.collections += 1
            self._began_ns = None
