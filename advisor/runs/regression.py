"""Whether fresh processes of a program are worse than a stored baseline, beyond noise.

What is judged grows when it gets worse: the time of a step, the peak of memory. Ratios are now over then.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.result.check import Checked, Verdict
from advisor.result.comparability import SAME_WORK
from advisor.result.document import Baseline, Interval, Ratio
from advisor.result.stored_step import LEAST_PROCESSES, StoredStep, of_interval, over_processes, stored_step
from advisor.stages.thread_collapse import CONTENDED_SHARE, contended
from advisor.tuners.comparing.excluded import THROTTLED
from advisor.tuners.comparing.measure import median
from advisor.tuners.trial.messages import Slot

LEAST_QUIET = 3  # slots of a process that have to be left when disturbed ones are left out
TICKS_S = 0.03  # error of the difference of two sums of the kernel's CPU times


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
    then: StoredStep,
    instances: Sequence[Sequence[float]],
    *,
    level: float,
    min_gain: float,
    floor: float = 0.0,
) -> Judgement:
    """Compare processes with what was stored.

    A stored figure of one process does not hold its bias. That is as large as the new processes differ
    among each other, so their spread enters twice: divided by their number for the new mean, whole for the
    stored figure. Independent errors add up in squares.

    Args:
        then: The stored figure.
        instances: Figures of each new process, at least three processes.
        level: Two-sided confidence.
        min_gain: Relative growth that is let pass.
        floor: Relative difference that one pair of processes cannot show.
    """
    assert len(instances) >= LEAST_PROCESSES
    now = over_processes(instances, level)
    growth = now.centre - then.centre
    half = math.hypot(now.half, max(then.alone(now.bias).half, math.log1p(floor)))
    limit = math.log1p(min_gain)
    return Judgement(growth, half, now.half, _verdict(growth, half, limit), math.expm1(half + limit))


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
    then = of_interval(stored.step_ms) if of_profile else stored_step(stored)
    judged = judge(then, times, level=level, min_gain=min_gain, floor=floor)
    checked = _checked(then.interval, judged, len(times), level, more)
    checked.per = "step" if more == 1.0 else "sample"
    return checked


def check_memory(then: int, peaks: Sequence[int], *, level: float, min_gain: float) -> Checked:
    """Peak memory, then and now; 0 where it is not known."""
    if then <= 0:
        return Checked(why="it was not measured in the reference")
    if min(peaks) <= 0:
        return Checked(why="it could not be measured now")
    stored = Interval(estimate=then, low=then, high=then)
    instances = [[float(peak)] for peak in peaks]
    judged = judge(of_interval(stored), instances, level=level, min_gain=min_gain)
    return _checked(stored, judged, len(peaks), level)


def undisturbed(slots: Sequence[Slot]) -> tuple[list[Slot], Counter[str]]:
    """Slots beside which little else ran and nothing was throttled, if enough are left; else all.

    Returns:
        The slots, and how many others there were by what disturbed them.
    """
    found = [(slot, _disturbed_by(slot)) for slot in slots]
    quiet = [slot for slot, reason in found if reason is None]
    if len(quiet) < LEAST_QUIET:
        return list(slots), Counter()
    return quiet, Counter(reason for _, reason in found if reason is not None)


def _disturbed_by(slot: Slot) -> str | None:
    seconds = sum(slot.step_s)
    if slot.other_cpu_s > max(TICKS_S, CONTENDED_SHARE * seconds):
        return "other_load"
    held_down = any(name == "throttled" for name, _ in slot.flags)
    return "throttled" if held_down or slot.throttled_s > THROTTLED * seconds else None


def is_contended(instances: Sequence[Sequence[Slot]]) -> bool:
    """Whether other processes used a good part of a CPU while these slots ran."""
    return contended([slot for each in instances for slot in each])


def _verdict(estimate: float, half: float, limit: float) -> Verdict:
    if estimate - half > limit:
        return "regressed"
    if estimate - half > 0:
        return "within_limit"
    return "improved" if estimate + half < 0 else "unchanged"


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
