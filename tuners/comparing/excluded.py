"""Slots that something else has falsified: other load, a throttled CPU, threads that collapsed.

What acts on both arms alike cancels in a quad. What acts on one of them alone is no property of it.
"""

import os
from collections import Counter
from collections.abc import Sequence

from advisor.profiles.derived.disturbance import COLLAPSED, OTHER_CPUS, TICK_S, TICKS
from advisor.tuners.knob import Config
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.messages import Slot

THROTTLED = 0.05  # of the time that a slot took
BUSY = 0.8  # of its threads, by CPU time over wall time: less voids a comparison of numbers of threads
BESIDE_ONE = "interference: other processes ran beside one side of the comparison alone"
HELD_DOWN = "throttled: the machine was held to lower speed"
SET_APART = ("evaluation", "save", "epoch", "compile")  # flags of steps that a slot does not count


def disturbance(first: Sequence[Slot], second: Sequence[Slot], threads: int) -> str | None:
    """What disturbed one arm of a quad and not the other; ``None`` if nothing did.

    Args:
        first: Slots of one arm.
        second: Slots of the other.
        threads: Of torch, in the program as it is.
    """
    if abs(other_cpus(first) - other_cpus(second)) > _least_difference(first, second):
        return "thread_collapse" if threads > 1 and _collapsed(first, second, threads) else "other_load"
    if abs(_throttled(first) - _throttled(second)) > THROTTLED or _held_down(first) != _held_down(second):
        return "throttled"
    return None


def more_disturbed(first: Sequence[Slot], second: Sequence[Slot]) -> int:
    """Which of two disturbed arms had the more other load, or was throttled the more: 0 or 1."""
    worse = [(_held_down(slots), other_cpus(slots) + _throttled(slots)) for slots in (first, second)]
    return int(worse[1] > worse[0])


def marks(first: Sequence[Slot], second: Sequence[Slot], threads: int = 1) -> list[str]:
    """What is said of a trial that stayed disturbed though it was repeated, the cause first.

    Args:
        first: Slots of the incumbent.
        second: Slots of the candidate.
        threads: Of torch, in the program as it is.
    """
    reason, room = disturbance(first, second, threads=1), len(os.sched_getaffinity(0))
    if reason is not None or _held_down(second):
        return [BESIDE_ONE if reason == "other_load" else HELD_DOWN]
    collapse = next(
        filter(None, (_collapse(slots, threads, room, COLLAPSED) for slots in (first, second))), None
    )
    return [] if collapse is None else [collapse]


def refuse_collapse(
    configs: tuple[Config, Config],
    arms: tuple[Sequence[Slot], Sequence[Slot]],
    cpus: int | None = None,
) -> None:
    """Refuse to compare numbers of threads while the threads of either side collapse under other load.

    Little CPU time for its threads is also what a step shows that is not parallel throughout, and then one
    thread may well be better than two. It tells of a collapse only where other processes ran that did not
    find room beside the threads: only there does a thread wait for one that has no CPU.

    Args:
        configs: What is compared.
        arms: Slots of each.
        cpus: That the program may use; those of this process where ``None``.

    Raises:
        TrialFailed: ``interference``; whichever side seems to be faster.
    """
    numbers = [int(config.get("num_threads", 1)) for config in configs]
    if numbers[0] == numbers[1]:
        return
    room = len(os.sched_getaffinity(0)) if cpus is None else cpus
    ranks = [int(config.get("ranks", 1)) for config in configs]
    for each, of, slots in zip(numbers, ranks, arms, strict=True):
        threads = each if of == 1 else of * max(1, room // of)  # CPU time is that of all ranks, which share
        collapse = _collapse(slots, threads, room, BUSY) if each > 1 else None
        if collapse is not None:
            raise TrialFailed(Failure("interference", collapse))


def set_apart(slots: Sequence[Slot]) -> Counter[str]:
    """Steps that were not counted because of what the program did in them, by flag."""
    counts: Counter[str] = Counter()
    for slot in slots:
        counts.update({name: count for name, count in slot.flags if name in SET_APART})
    return counts


def _collapse(slots: Sequence[Slot], threads: int, room: int, share: float) -> str | None:
    """Says that several threads had little CPU time beside other load without room for it, if that is so."""
    least = max(OTHER_CPUS, TICKS * TICK_S / wall_s(slots))
    busy, other = sum(slot.cpu_s for slot in slots) / wall_s(slots), other_cpus(slots)
    if threads < 2 or other <= least or threads + other <= room or busy >= share * threads:
        return None
    return f"thread_collapse: {threads} threads had {busy:.1f} CPUs beside {other:.1f} of other load"


def other_cpus(slots: Sequence[Slot]) -> float:
    """CPUs that other processes used beside some slots."""
    return sum(slot.other_cpu_s for slot in slots) / wall_s(slots)


def _throttled(slots: Sequence[Slot]) -> float:
    return sum(slot.throttled_s for slot in slots) / wall_s(slots)


def _held_down(slots: Sequence[Slot]) -> bool:
    """Whether the driver held the device's clocks down in any of them."""
    return any(name == "throttled" for slot in slots for name, _ in slot.flags)


def _collapsed(first: Sequence[Slot], second: Sequence[Slot], threads: int) -> bool:
    shares = [sum(slot.cpu_s for slot in slots) / wall_s(slots) for slots in (first, second)]
    return min(shares) < COLLAPSED * threads


def _least_difference(first: Sequence[Slot], second: Sequence[Slot]) -> float:
    """CPUs; in short slots the kernel's ticks alone differ by as much."""
    return max(OTHER_CPUS, TICKS * TICK_S / min(wall_s(first), wall_s(second)))


def wall_s(slots: Sequence[Slot]) -> float:
    """Wall seconds of all their steps; never zero."""
    return max(sum(sum(slot.step_s) for slot in slots), 1e-9)
