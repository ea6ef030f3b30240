"""Duels for the objective ``memory``: whose process needs less, instead of whose steps are faster."""

import math
from collections.abc import Mapping

from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.ways import WINDOWS
from advisor.tuners.comparing.windows import Window
from advisor.tuners.knob import Value


class MemoryArena(Arena):
    """Compares peak memory of whole windows, each in a process of its own: of the device, else of the host.

    Peaks of two settings in one process cannot be told apart, so no setting is switched live.
    """

    timed = False

    def how(self, first: Mapping[str, Value], second: Mapping[str, Value], *, fresh: bool = False) -> str:
        """Always in processes of their own."""
        return WINDOWS

    def may_switch(self, first: Mapping[str, Value], second: Mapping[str, Value]) -> bool:
        """Never."""
        return False

    def _gain(self, base: Window, candidate: Window, by_work: bool) -> float:
        return math.log(_peak(base) / _peak(candidate))


def _peak(window: Window) -> int:
    return 1 if window.outcome is None else max(1, window.outcome.highest_bytes)
