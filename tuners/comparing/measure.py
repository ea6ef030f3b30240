"""Statistics of interleaved timing: warm-up, quads, intervals within and between processes.

All comparisons are in log ratios ``log(time of A / time of B)`` per unit of work: positive means that
B is faster. A quad is A B B A; its log ratio is free of linear drift.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import variance

from advisor.tuners.comparing.over_nodes import over_nodes

MAD_TO_SIGMA = 1.4826  # of a normal distribution
BLOCK = 5  # quads resampled together: neighbouring quads are correlated
BOOTSTRAP_ROUNDS = 1000
SPREAD = Path(__file__).with_name("spread.json")  # between processes, as ``benchmarks.learn_spread`` found it
LEAST_INSIDE = 3  # quads of each pair that tell the spread within it
MEDIAN_EFFICIENCY = 1.25  # a median needs that much more than a mean, in standard errors


@dataclass(frozen=True)
class Estimate:
    """A log ratio with its interval; ``level`` is the two-sided confidence."""

    estimate: float
    low: float
    high: float
    level: float
    quads: int
    instances: int

    def shifted(self, offset: float) -> "Estimate":
        """The same interval moved by ``offset``: a chain of two comparisons, the other taken as exact."""
        return Estimate(
            self.estimate + offset,
            self.low + offset,
            self.high + offset,
            self.level,
            self.quads,
            self.instances,
        )

    def less(self, other: "Estimate") -> "Estimate":
        """By how much more this is than another one that was measured apart, at the level of both."""
        half = math.hypot(self.high - self.low, other.high - other.low) / 2
        more = self.estimate - other.estimate
        quads, instances = self.quads + other.quads, self.instances + other.instances
        return Estimate(more, more - half, more + half, self.level, quads, instances)

    @property
    def ratio(self) -> tuple[float, float, float]:
        """Speed of B over speed of A: estimate, low, high."""
        return math.exp(self.estimate), math.exp(self.low), math.exp(self.high)


def median(values: Sequence[float]) -> float:
    """The median of at least one value."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def robust_sigma(values: Sequence[float]) -> float:
    """Spread by the median absolute deviation, scaled to a normal's standard deviation."""
    centre = median(values)
    return MAD_TO_SIGMA * median([abs(value - centre) for value in values])


def quad_log_ratio(a1: float, b1: float, b2: float, a2: float) -> float:
    """Log ratio of one quad from the four slots' seconds per unit, in any order of arms."""
    return 0.5 * (math.log(a1 / b1) + math.log(a2 / b2))


def slot_steps(step_s: float, period: int = 1) -> int:
    """How many steps make a slot: about five, or 0.1 to 0.2 s of very short ones; whole periods.

    Args:
        step_s: Seconds of one step.
        period: Steps after which the order of optimizers repeats.
    """
    steps = 5 if step_s < 0.1 else max(1, round(0.5 / step_s))
    steps = max(steps, math.ceil(0.15 / max(step_s, 1e-6)))
    return math.ceil(steps / period) * period


def settled(windows: Sequence[Sequence[float]], tolerance: float = 0.05) -> bool:
    """Whether the last two windows agree within noise: warm-up has ended.

    Args:
        windows: Step times of consecutive windows, at least one value in each.
        tolerance: Relative difference of medians that is always accepted.
    """
    if len(windows) < 2:
        return False
    before, last = windows[-2], windows[-1]
    several = len(before) + len(last) > 2  # the spread of two values is their difference
    noise = robust_sigma([*before, *last]) / math.sqrt(len(last)) if several else 0.0
    return abs(median(last) - median(before)) <= max(tolerance * median(before), 2 * noise)


def within(log_ratios: Sequence[float], level: float, seed: int = 0) -> Estimate:
    """Interval of the median over the quads of one process, by a bootstrap over blocks of quads.

    With fewer than four blocks, where a bootstrap is too narrow, a t-interval with the median's
    lower efficiency is used.
    """
    import numpy

    count = len(log_ratios)
    centre = median(log_ratios)
    if count < 4 * BLOCK:
        half = MEDIAN_EFFICIENCY * _t_half_width(log_ratios, level)
        return Estimate(centre, centre - half, centre + half, level, count, 1)
    generator = numpy.random.default_rng(seed)
    values = numpy.asarray(log_ratios)
    starts = generator.integers(0, count - BLOCK + 1, size=(BOOTSTRAP_ROUNDS, math.ceil(count / BLOCK)))
    picks = (starts[:, :, None] + numpy.arange(BLOCK)).reshape(BOOTSTRAP_ROUNDS, -1)[:, :count]
    medians = numpy.median(values[picks], axis=1)
    tail = (1 - level) / 2
    low, high = (float(bound) for bound in numpy.quantile(medians, [tail, 1 - tail]))
    return Estimate(centre, min(low, centre), max(high, centre), level, count, 1)


def beside_itself(log_ratios: Sequence[float], level: float) -> Estimate:
    """Interval of a program over itself in one process, where what is measured is known to be 0.

    So few quads spread around that instead of around their own centre: two tell the spread nearly as well as
    three would otherwise. Many are taken as any others.
    """
    from scipy.stats import t

    count = len(log_ratios)
    if count >= 4 * BLOCK:
        return within(log_ratios, level)
    centre = median(log_ratios)
    deviation = math.sqrt(sum(ratio**2 for ratio in log_ratios) / count)
    half = MEDIAN_EFFICIENCY * float(t.ppf(0.5 + level / 2, count)) * deviation / math.sqrt(count)
    return Estimate(centre, centre - half, centre + half, level, count, 1)


def single(log_ratio: float, sigma: float, level: float) -> Estimate:
    """A lone observation, with the spread that the baseline showed against itself.

    Args:
        log_ratio: What was observed.
        sigma: Spread of such observations.
        level: Two-sided confidence.
    """
    from statistics import NormalDist

    half = NormalDist().inv_cdf(0.5 + level / 2) * sigma
    return Estimate(log_ratio, log_ratio - half, log_ratio + half, level, 1, 1)


def between(instances: Sequence[Sequence[float]], level: float) -> Estimate:
    """Interval over processes: a t-interval on the medians of each, so that their own bias is in it."""
    medians = [median(quads) for quads in instances]
    mean = sum(medians) / len(medians)
    half = _t_half_width(medians, level)
    quads = sum(len(values) for values in instances)
    return Estimate(mean, mean - half, mean + half, level, quads, len(medians))


def within_variance(instances: Sequence[Sequence[float]]) -> float | None:
    """Mean squared standard error of the pairs' means; ``None`` where a pair has too few quads to tell."""
    if any(len(quads) < LEAST_INSIDE for quads in instances):
        return None
    return sum(variance(quads) / len(quads) for quads in instances) / len(instances) or None


def moderated(
    instances: Sequence[Sequence[float]], level: float, how: str = "", nodes: Sequence[str] = ()
) -> Estimate:
    """Interval over pairs of processes, whose spread is known before: a moderated t-interval.

    The variance between pairs is a scaled inverse chi-square variable whose degrees of freedom and typical
    value were learnt from recorded programs, relative to the spread within a pair where that is known; the
    pairs seen here add theirs (Smyth 2004, "Linear models and empirical Bayes methods", section 3). So two
    pairs have an interval that covers, and many hardly depend on what was recorded.

    Where there were several nodes, the interval is the wider one of ``over_nodes``.

    Args:
        instances: Log ratios by pair, at least one.
        level: Two-sided confidence.
        how: The way in which they were compared, which has a prior of its own; empty for that of all ways.
        nodes: On which each pair was measured; empty where there was but one.
    """
    from scipy.stats import t

    medians = [median(quads) for quads in instances]
    count = len(medians)
    mean, variance_between, freedom = between_pairs(medians, how, within_variance(instances))
    half = float(t.ppf(0.5 + level / 2, freedom)) * math.sqrt(variance_between / count)
    if nodes:
        mean, half = over_nodes(medians, nodes, level, half)
    return Estimate(mean, mean - half, mean + half, level, sum(map(len, instances)), count)


def between_pairs(medians: Sequence[float], how: str, inside: float | None) -> tuple[float, float, float]:
    """Mean, and variance between pairs with its degrees of freedom: what is known before, and these."""
    spread, known = _prior(how, inside)
    freedom = known + len(medians) - 1
    mean = sum(medians) / len(medians)
    squares = known * spread + sum((each - mean) ** 2 for each in medians)
    return mean, squares / freedom, freedom


def expected_spread(within: float, quads: int, how: str = "") -> tuple[float, float]:
    """Variance between pairs of processes to be expected before any is seen, and its degrees of freedom.

    Args:
        within: Squared standard error of a pair's mean.
        quads: Of each pair: few do not tell that.
        how: The way of comparing; empty for all of them together.
    """
    return _prior(how, within if quads >= LEAST_INSIDE else None)


def _prior(how: str, inside: float | None) -> tuple[float, float]:
    known = _learnt().get(how) or _learnt()[""]
    if inside is None or "relative" not in known:
        return known["plain"]["variance"], known["plain"]["freedom"]
    return known["relative"]["variance"] * inside, known["relative"]["freedom"]


@cache
def _learnt() -> dict[str, dict[str, dict[str, float]]]:
    """By way of comparing, and of all together under the empty name."""
    learnt: dict[str, dict[str, dict[str, float]]] = json.loads(SPREAD.read_text())["ways"]
    return learnt


def smallest_detectable(sigma: float, quads: int, level: float = 0.99, power: float = 0.8) -> float:
    """The smallest relative difference that ``quads`` quads of spread ``sigma`` would show.

    Inverts the planning rule ``quads = ((z_alpha + z_power) * 1.25 * sigma / delta) ** 2``.
    """
    from statistics import NormalDist

    z = NormalDist().inv_cdf(level) + NormalDist().inv_cdf(power)
    return math.expm1(z * MEDIAN_EFFICIENCY * sigma / math.sqrt(max(1, quads)))


def planned_quads(sigma: float, delta: float, level: float = 0.998, power: float = 0.8) -> int:
    """Quads that show a relative difference ``delta`` at spread ``sigma`` (measurement.md, section 3).

    Args:
        sigma: Robust spread of the log ratio of one quad.
        delta: Relative difference to be shown.
        level: One-sided.
        power: Probability with which it is to be shown.
    """
    from statistics import NormalDist

    z = NormalDist().inv_cdf(level) + NormalDist().inv_cdf(power)
    return math.ceil((z * MEDIAN_EFFICIENCY * sigma / math.log1p(delta)) ** 2)


def _t_half_width(values: Sequence[float], level: float) -> float:
    from scipy.stats import t

    count = len(values)
    if count < 2:
        return math.inf
    mean = sum(values) / count
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return float(t.ppf(0.5 + level / 2, count - 1)) * deviation / math.sqrt(count)
