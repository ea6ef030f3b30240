"""Statistics of interleaved timing: warm-up, quads, intervals within and between processes.

All comparisons are in log ratios ``log(time of A / time of B)`` per unit of work: positive means that
B is faster. A quad is A B B A; its log ratio is free of linear drift.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import variance
from typing import Literal

from advisor.tuners.comparing.over_nodes import over_nodes
from advisor.tuners.comparing.pair_places import Where, nodes_of, within_wave

MAD_TO_SIGMA = 1.4826  # of a normal distribution
BLOCK = 5  # quads resampled together: neighbouring quads are correlated
BOOTSTRAP_ROUNDS = 1000
LOOKS = (2, 4, 6, 8, 12)  # pairs at which a confirmation may end; even: both orders of roles count alike
MIN_INSTANCES = LOOKS[0]
TOTAL_LEVEL = 0.002  # one-sided, over all looks together (Bonferroni)
SHARES = (0.5, 0.125, 0.125, 0.125, 0.125)  # of it, by look: the first confirms large effects
SPREAD = Path(__file__).with_name("spread.json")  # between processes, as ``benchmarks.learn_spread`` found it
LEAST_INSIDE = 3  # quads of each pair that tell the spread within it
FUTILE = 0.05  # probability that the pairs that may follow confirm, below which none does
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
    mean, variance_between, freedom = _between_pairs(medians, how, within_variance(instances))
    half = float(t.ppf(0.5 + level / 2, freedom)) * math.sqrt(variance_between / count)
    if nodes:
        mean, half = over_nodes(medians, nodes, level, half)
    return Estimate(mean, mean - half, mean + half, level, sum(map(len, instances)), count)


def _between_pairs(medians: Sequence[float], how: str, inside: float | None) -> tuple[float, float, float]:
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


@dataclass(frozen=True)
class Decision:
    """What a group-sequential look says.

    Attributes:
        verdict: ``confirmed``, ``rejected`` or ``continue``.
        estimate: With the interval that is shown.
        futile: Rejected since the pairs that may follow would hardly have confirmed it.
    """

    verdict: Literal["confirmed", "rejected", "continue"]
    estimate: Estimate
    futile: bool = False


def look(
    instances: Sequence[Sequence[float]],
    min_gain: float,
    level: float,
    final: bool,
    share: float = SHARES[-1],
    how: str = "",
    nodes: Sequence[str] = (),
) -> Decision:
    """One planned look of a confirmation.

    Confirmed when the one-sided test at this look's share of the total level excludes "no gain", the
    lower bound at ``level`` exceeds ``min_gain``, and both orders of roles agree in sign. Rejected
    when the upper bound falls below it, when the looks that may follow will hardly confirm it, or at the last
    look. Ending so early makes no error of the first kind more likely.

    Args:
        instances: Log ratios by process; even and odd ones with roles swapped.
        min_gain: Relative gain that must be exceeded.
        level: Two-sided confidence of the reported interval.
        final: No further look will follow.
        share: Of the total level.
        how: As of ``moderated``.
        nodes: As of ``moderated``.
    """
    shown = moderated(instances, level, how, nodes)
    threshold = math.log1p(min_gain)
    strict = moderated(instances, 1 - 2 * TOTAL_LEVEL * share, how, nodes)
    if strict.low > 0 and shown.low > threshold and _same_sign(instances):
        return Decision("confirmed", shown)
    if final or shown.high < threshold:
        return Decision("rejected", shown)
    if _is_futile(instances, threshold, level, how):
        return Decision("rejected", shown, futile=True)
    return Decision("continue", shown)


def _is_futile(instances: Sequence[Sequence[float]], threshold: float, level: float, how: str) -> bool:
    """Whether the last look confirms with a probability below ``FUTILE``, by the pairs that there are.

    The predictive power of Spiegelhalter, Freedman, Blackburn 1986 ("Monitoring clinical trials"): the mean
    of all pairs lies around that of those seen, as far as these and those to come let it, and must exceed
    what the last look asks for.
    """
    from scipy.stats import t

    count, most = len(instances), LOOKS[-1]
    medians = [median(quads) for quads in instances]
    mean, variance_between, freedom = _between_pairs(medians, how, within_variance(instances))
    last = freedom + most - count
    strict, shown = (float(t.ppf(p, last)) for p in (1 - TOTAL_LEVEL * SHARES[-1], 0.5 + level / 2))
    error = math.sqrt(variance_between / most)
    needed = max(strict * error, threshold + shown * error)
    reach = float(t.ppf(1 - FUTILE, freedom)) * math.sqrt(variance_between * (1 / count - 1 / most))
    return mean + reach < needed


def confirm(
    instance: Callable[[int], Sequence[float] | None],
    *,
    min_gain: float,
    level: float,
    earlier: Sequence[Sequence[float]] = (),
    how: str = "",
    where: Sequence[Where] = (),
) -> tuple[Decision, list[list[float]]]:
    """Group-sequential confirmation on fresh processes.

    One that was ended between two looks goes on where it stopped: looks are taken at the same numbers of
    processes, so the level holds however often a study is stopped and resumed. None is taken within a wave of
    several nodes: it would see some of them only.

    Args:
        instance: ``(index) -> log ratios of one fresh process or pair``; roles swapped for odd
            indices. ``None`` when no further one can be afforded.
        min_gain: See ``look``.
        level: See ``look``.
        earlier: Log ratios by process that this confirmation has already, in the order measured.
        how: As of ``moderated``.
        where: Each was measured, by its index; ``instance`` adds to it. Empty for one node.

    Returns:
        The decision and all log ratios. Without the instances of the first look nothing is confirmed.
    """
    collected = [list(values) for values in earlier]
    for stop, share in zip(LOOKS, SHARES, strict=True):
        while len(collected) < stop:
            values = instance(len(collected))
            if values is None:
                return _unfinished(collected, level, how), collected
            collected.append(list(values))
        if within_wave(where, stop):
            continue
        decision = look(
            collected[:stop], min_gain, level, stop == LOOKS[-1], share, how, nodes_of(where, stop)
        )
        if decision.verdict != "continue":
            return decision, collected
    raise AssertionError("the last look always decides")


def decided(
    instances: Sequence[Sequence[float]],
    *,
    min_gain: float,
    level: float,
    how: str = "",
    where: Sequence[Where] = (),
) -> Decision | None:
    """What the first planned look that ended a confirmation of these processes said; ``None`` if none did.

    Args as of ``look``, and ``where`` they were measured.
    """
    for stop, share in zip(LOOKS, SHARES, strict=True):
        if stop <= len(instances) and not within_wave(where, stop):
            final, nodes = stop == LOOKS[-1], nodes_of(where, stop)
            decision = look(instances[:stop], min_gain, level, final, share, how, nodes)
            if decision.verdict != "continue":
                return decision
    return None


def _same_sign(instances: Sequence[Sequence[float]]) -> bool:
    """Whether both orders of roles show a gain."""
    orders = [[median(quads) for quads in instances[start::2]] for start in (0, 1)]
    return all(median(order) > 0 for order in orders if order)


def _unfinished(collected: Sequence[Sequence[float]], level: float, how: str) -> Decision:
    if not collected:
        return Decision("rejected", Estimate(0.0, -1.0, 1.0, level, 1, 0))
    return Decision("rejected", moderated(collected, level, how))


def _t_half_width(values: Sequence[float], level: float) -> float:
    from scipy.stats import t

    count = len(values)
    if count < 2:
        return math.inf
    mean = sum(values) / count
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return float(t.ppf(0.5 + level / 2, count - 1)) * deviation / math.sqrt(count)
