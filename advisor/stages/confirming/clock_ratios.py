"""How much faster the second setting of a duel is by a clock, whatever the duel itself compares."""

import math

from advisor.tuners.comparing.duel import Duel


def wall_log_ratios(duel: Duel) -> list[float]:
    """Log ratios of wall time per unit of work, slot by slot."""
    pairs = zip(duel.first, duel.second, strict=False)
    return [math.log(a.seconds_per_unit / b.seconds_per_unit) for a, b in pairs]


def cpu_log_ratios(duel: Duel) -> list[float]:
    """Log ratios of CPU time per unit of work, slot by slot; empty where the system counted none."""
    pairs = list(zip(duel.first, duel.second, strict=False))
    if not all(a.cpu_s > 0 and b.cpu_s > 0 for a, b in pairs):
        return []
    return [math.log(a.cpu_seconds_per_unit / b.cpu_seconds_per_unit) for a, b in pairs]
