"""Pauses of Python's garbage collector on the training thread."""

import gc
import linecache
import sys
from time import perf_counter_ns
from types import FrameType
from typing import Any

from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.patches import Scope
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.user_lines import is_ours, place_of, user_location

WHOLE = 2  # the generation that `gc.collect()` collects with all younger ones


class Garbage:
    """Times every collection since the first step, by ``gc.callbacks``.

    One that a line asks for, by ``gc.collect()``, is told from those that Python begins by itself. What runs
    between two steps of the program is ours, and its collections do not count, as its time does not.
    """

    def __init__(self, clock: Clock, scope: Scope) -> None:
        self._clock = clock
        self._scope = scope
        self._began_ns: int | None = None
        self._asked = False
        self.seconds = self.asked_seconds = 0.0
        self.collections = 0
        self.location: Location | None = None

    def install(self) -> None:
        """Watch from now on."""
        gc.callbacks.append(self._called)

    def remove(self) -> None:
        """Watch no longer."""
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)

    def facts(self) -> dict[str, Any]:
        """Fields of ``RunFacts``."""
        return {
            "gc_s": self.seconds,
            "gc_collections": self.collections,
            "gc_asked_s": self.asked_seconds,
            "gc_location": self.location,
        }

    def _called(self, phase: str, info: dict[str, int]) -> None:
        if not self._scope.here() or self._clock.first_tick_ns is None or self._clock.between_steps:
            self._began_ns = None
        elif phase == "start":
            self._began_ns = perf_counter_ns()
            if info["generation"] == WHOLE:
                self._look(sys._getframe(1))
        elif self._began_ns is not None:
            spent = (perf_counter_ns() - self._began_ns) / 1e9
            self.seconds += spent
            self.collections += 1
            self.asked_seconds += spent * self._asked
            self._asked = False
            self._began_ns = None

    def _look(self, frame: FrameType) -> None:
        """Whether the line that runs asks for a collection."""
        line = linecache.getline(frame.f_code.co_filename, place_of(frame).line)
        self._asked = "collect(" in line and not is_ours(frame)
        if self._asked and self.location is None:
            self.location = user_location(frame)
