"""Whether fresh processes of a program are worse than a stored baseline, beyond noise.

What is judged grows when it gets worse: the time of a step, the peak of memory. Ratios are now over then.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.baseline import CONTENDED_SHARE
from advisor.check_result import Checked, Verdict
from advisor.comparability import SAME_WORK
from advisor.result import Baseline, Interval, Ratio
from advisor.tuners.measure import Slot, between, median

LEAST_INSTANCES = 3  # processes; with fewer the spread between them is hardly known
LEAST_QUIET = 3  # slots of a process that have to be left when disturbed ones are left out
TICKS_S = 0.03  # error of the difference of two sums of the kernel's CPU times
WIDEST = 20.0  # log ratio; a wider interval is written as this


@dataclass(frozen=True)
class Judgement:
    """A log ratio now over then.

    Attributes:
        half: Half the width of its interval.
        half_now: Half the width of the interval of the new mean alone.
        smallest: The smallest regression that could have been seen, relative.
    """

    estimate: float
    half: float
    half_now: float
    verdict: Verdict
    smallest: float


def judge(
    then: Interval,
    instances: Sequence[Sequence[float]],
    *,
    level: float,
    min_gain: float,
    floor: float = 0.0,
) -> Judgement:
    """Compare processes with what one process measured earlier.

    The stored figure comes from one process, whose own bias its interval does not hold. That bias is as
    large as the new processes differ among each other, so their spread enters twice: divided by their
    number for the new mean, whole for the stored figure.

    Args:
        then: The stored figure.
        instances: Figures of each new process, at least three processes.
        level: Two-sided confidence.
        min_gain: Relative growth that is let pass.
        floor: Relative difference that one pair of processes cannot show.
    """
    assert len(instances) >= LEAST_INSTANCES
    now = between([[math.log(value / then.estimate) for value in each] for each in instances], level)
    half_now = min(WIDEST, now.high - now.estimate)
    bias = half_now * math.sqrt(len(instances))  # of a single process
    half = min(WIDEST, math.hypot(half_now, max(_log_half(then), bias, math.log1p(floor))))
    limit = math.log1p(min_gain)
    verdict = _verdict(now.estimate, half, limit)
    return Judgement(now.estimate, half, half_now, verdict, math.expm1(half + limit))


def check_step(
    stored: Baseline,
    instances: Sequence[Sequence[Slot]],
    *,
    sampled: bool,
    of_profile: bool,
    level: float,
    min_gain: float,
    floor: float,
) -> Checked:
    """The time of a step, then and now.

    Args:
        stored: The baseline of the reference.
        instances: Slots by process.
        sampled: Work is counted in samples.
        of_profile: The reference tells the median of single steps, not of slots.
        level: Two-sided confidence.
        min_gain: Relative growth that is let pass.
        floor: Relative difference that one pair of processes cannot show.
    """
    more = _work_ratio(stored, instances) if sampled else 1.0
    times = [[_step_ms(slot, of_profile) / more for slot in slots] for slots in instances]
    judged = judge(stored.step_ms, times, level=level, min_gain=min_gain, floor=floor)
    checked = _checked(stored.step_ms, judged, len(times), level, more)
    checked.per = "step" if more == 1.0 else "sample"
    return checked


def check_memory(then: int, peaks: Sequence[int], *, level: float, min_gain: float) -> Checked:
    """Peak memory, then and now; 0 where it is not known."""
    if then <= 0:
        return Checked(why="it was not measured in the reference")
    if min(peaks) <= 0:
        return Checked(why="it could not be measured now")
    stored = Interval(estimate=then, low=then, high=then)
    judged = judge(stored, [[float(peak)] for peak in peaks], level=level, min_gain=min_gain)
    return _checked(stored, judged, len(peaks), level)


def undisturbed(slots: Sequence[Slot]) -> list[Slot]:
    """Slots beside which little else ran, if enough of them are left; else all."""
    quiet = [slot for slot in slots if slot.other_cpu_s <= max(TICKS_S, CONTENDED_SHARE * sum(slot.step_s))]
    return quiet if len(quiet) >= LEAST_QUIET else list(slots)


def is_contended(instances: Sequence[Sequence[Slot]]) -> bool:
    """Whether other processes used a good part of a CPU while these slots ran."""
    slots = [slot for each in instances for slot in each]
    wall = sum(sum(slot.step_s) for slot in slots)
    return sum(slot.other_cpu_s for slot in slots) > CONTENDED_SHARE * wall


def _verdict(estimate: float, half: float, limit: float) -> Verdict:
    if estimate - half > limit:
        return "regressed"
    if estimate - half > 0:
        return "within_limit"
    return "improved" if estimate + half < 0 else "unchanged"


def _log_half(value: Interval) -> float:
    """Half the width of an interval around a positive value, in logarithms: its wider side."""
    sides = [value.high / value.estimate]
    if value.low > 0:
        sides.append(value.estimate / value.low)
    return math.log(max(*sides, 1.0))


def _work_ratio(stored: Baseline, instances: Sequence[Sequence[Slot]]) -> float:
    """Samples of a step now over those of then; 1 where they are about the same or not known."""
    then = stored.throughput.estimate * stored.step_ms.estimate / 1000
    if stored.throughput.unit != "samples/s" or then <= 0:
        return 1.0
    more = median([slot.work for slots in instances for slot in slots]) / then
    return 1.0 if abs(more - 1) <= SAME_WORK else more


def _step_ms(slot: Slot, of_profile: bool) -> float:
    return 1e3 * (median(slot.step_s) if of_profile else slot.mean_s)


def _checked(then: Interval, judged: Judgement, instances: int, level: float, more: float = 1.0) -> Checked:
    """The judgement as figures; ``more`` brings the present value back to a whole step."""

    def around(centre: float, half: float) -> tuple[float, float, float]:
        low, estimate, high = (centre * math.exp(judged.estimate + end) for end in (-half, 0.0, half))
        return low, estimate, high

    low, now, high = around(then.estimate * more, judged.half_now)
    least, ratio, most = around(1.0, judged.half)
    return Checked(
        then=then,
        now=Interval(estimate=now, low=low, high=high),
        ratio=Ratio(estimate=ratio, low=least, high=most, instances=instances, confidence=level),
        verdict=judged.verdict,
        smallest_regression=judged.smallest,
    )
