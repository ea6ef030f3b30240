"""How much faster the second setting of a duel is by a clock, whatever the duel itself compares."""

import math
from collections.abc import Sequence

from advisor.stages.bench import MeasuredBench
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.comparing.measure import median
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.trial.messages import Slot, SlotMeasured


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


def cpu_time_counts(bench: MeasuredBench, present: Configuration, winner: Configuration) -> bool:
    """Whether CPU time measures a step: one thread, no loader workers, nothing on a device."""
    arena = bench.arena
    alone = all(arena.queue_depth(config) == 0 for config in (winner, present))
    alone = alone and int(winner.get("ranks", 1)) == 1
    threads = {arena.threads, int(winner.get("num_threads", arena.threads))}
    return bench.baseline.profile.device == "cpu" and alone and threads == {1}


def steady_step_s(slots: Sequence[Slot], message: SlotMeasured) -> float:
    """Seconds of a step, without those that start an epoch: other measurements set them apart."""
    kept = set(message.kept)
    walls = [wall / 1e9 for index, wall in enumerate(message.wall_ns) if index not in kept] if kept else []
    return sum(walls) / len(walls) if walls else median([slot.mean_s for slot in slots])
