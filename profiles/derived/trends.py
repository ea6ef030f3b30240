"""Which readings of a run rise from step to step, by how much, and when a limit is met."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from advisor.profiles.facts.growing import GrowingVariable, Growth, Readings
from advisor.profiles.facts.profile import Profile

FEWEST = 6  # readings, of which all may rise by chance once in 720
CONCORDANT = 0.8  # of the pairs of readings that differ; noise has a half, one jump in the middle 0.75
RISING = 0.7  # of all pairs; one jump makes half of them rise, two make two thirds
PAIRED = 64  # readings between which slopes are taken
STEADY = 1 / 3  # of the rate up to the middle third, that the last one must still rise at
EQUAL = 0.5  # of the faster of two rates, at least, for one to be behind the other
DAY_S = 86_400.0
KEPT = ("batch", "shared")  # what a variable holds that keeps tensors as a loader delivered them


@dataclass(frozen=True)
class Trend:
    """A quantity that rises steadily, over ``steps`` steps to ``last``.

    ``met_at`` is the step of the run at which its limit is met if it goes on; ``None`` without a limit.
    """

    kind: str
    per_step: float
    steps: int
    first: float
    last: float
    limit: float | None = None
    met_at: int | None = None


def trend(readings: Readings) -> Trend | None:
    """The robust slope of what rises steadily; ``None`` for what does not.

    The slope is the median of those between all pairs of readings (Theil 1950, Sen 1968), and steady is what
    Kendall's rank correlation says: the later of two readings is nearly always the higher one.
    """
    every = -(-len(readings.steps) // PAIRED)
    steps, values = readings.steps[::-every][::-1], readings.values[::-every][::-1]
    if len(steps) < FEWEST:
        return None
    pairs = list(combinations(zip(steps, values, strict=True), 2))
    slopes = [(later[1] - earlier[1]) / (later[0] - earlier[0]) for earlier, later in pairs]
    up, down = sum(slope > 0 for slope in slopes), sum(slope < 0 for slope in slopes)
    slope = statistics.median(slopes)
    steady = up >= CONCORDANT * (up + down) and up >= RISING * len(slopes)
    if slope <= 0 or not steady or not _still_rises(steps, values):
        return None
    limit, met_at = readings.limit, None
    if limit is not None:
        met_at = steps[-1] + max(0, int((limit - values[-1]) / slope))
    span = steps[-1] - steps[0]
    return Trend(readings.kind, slope, span, max(0.0, values[-1] - slope * span), values[-1], limit, met_at)


def trends(profile: Profile) -> dict[str, Trend]:
    """What rises steadily in a run, by kind."""
    growth = profile.growth
    found = [trend(each) for each in growth.readings] if growth is not None else []
    return {each.kind: each for each in found if each is not None}


def risen(readings: Readings) -> float:
    """The last third of the readings over the first, by their medians; 1 where there are too few."""
    third = len(readings.values) // 3
    if len(readings.values) < FEWEST or not (first := statistics.median(readings.values[:third])):
        return 1.0
    return statistics.median(readings.values[-third:]) / first


def sample_times(growth: Growth | None) -> Readings | None:
    """Milliseconds of a sample; ``None`` where steps take equally many, or it is not known how many."""
    read = {each.kind: each for each in growth.readings} if growth is not None else {}
    step, samples = read.get("step"), read.get("samples")
    if step is None or samples is None or samples.steps != step.steps or not all(samples.values):
        return None
    if len(set(samples.values)) == 1:
        return None
    times = tuple(ms / count for ms, count in zip(step.values, samples.values, strict=True))
    return replace(step, kind="sample", values=times)


def grower(profile: Profile, per_step: float, holds: Sequence[str] = ()) -> GrowingVariable | None:
    """The variable that grows about as fast as something else, of those that hold what is named."""
    growth = profile.growth
    for variable in growth.variables if growth is not None else ():
        rates = sorted((variable.per_step, per_step))
        if rates[0] >= EQUAL * rates[1] and (not holds or variable.holds in holds):
            return variable
    return None


def kept_batches(profile: Profile) -> GrowingVariable | None:
    """The variable that keeps tensors as the loader delivered them, of every second batch at least."""
    growth = profile.growth
    return next(
        (
            each for each in (growth.variables if growth is not None else ())
            if each.holds in KEPT and each.per_step >= EQUAL
        ),
        None,
    )  # fmt: skip


def planned_steps(profile: Profile) -> tuple[int, str] | None:
    """How many steps the run will make at least, and what they are; ``None`` where nothing tells it."""
    run, loader = profile.run, profile.loader
    if run is not None and run.training_steps is not None:
        return run.training_steps, "steps planned"
    if loader is not None and loader.dataset_length and loader.batch_size:
        return loader.dataset_length // loader.batch_size, "steps of an epoch"
    return None


def within(profile: Profile, met_at: int) -> str | None:
    """Why the step ``met_at`` will come, in words; ``None`` where it lies beyond the run, or beyond a day."""
    planned = planned_steps(profile)
    if planned is not None:
        return f"of {planned[0]:,} {planned[1]}" if met_at <= planned[0] else None
    step_s = profile.phases.step_ms / 1e3 if profile.phases is not None else 0.0
    hours = met_at * step_s / 3600
    return f"after {hours:.2g} hours" if 0 < met_at * step_s <= DAY_S else None


def _still_rises(steps: Sequence[int], values: Sequence[float]) -> bool:
    """Whether the last third rises about as fast as those before it did; readings lie unlike steps apart."""
    third = len(values) // 3
    thirds = slice(third), slice(third, -third), slice(-third, None)
    first, middle, last = (statistics.median(values[part]) for part in thirds)
    began, between, ended = (statistics.median(steps[part]) for part in thirds)
    return (last - middle) * (between - began) >= STEADY * (middle - first) * (ended - between)
