"""When a confirmation ends: planned looks at pairs of fresh processes, under one level for all of them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from advisor.tuners.comparing.measure import (
    Estimate,
    between_pairs,
    median,
    moderated,
    within_variance,
)
from advisor.tuners.comparing.pair_places import Where, nodes_of, within_wave

LOOKS = (2, 3, 4, 5, 6, 8, 12)  # pairs at which a confirmation may end: an early end spares two launches
MIN_INSTANCES = LOOKS[0]
TOTAL_LEVEL = 0.002  # one-sided, over all looks together (Bonferroni)
SHARES = (0.5, 0.0625, 0.125, 0.03125, 0.0625, 0.09375, 0.125)  # of it, by look; most for large effects
FUTILE = 0.05  # probability that the pairs that may follow confirm, below which none does


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
    balanced = len(instances) % 2 == 0  # both orders of roles count alike
    if balanced and _is_futile(instances, threshold, level, how):
        return Decision("rejected", shown, futile=True)
    return Decision("continue", shown)


def is_clear(instances: Sequence[Sequence[float]], min_gain: float, level: float, how: str = "") -> bool:
    """Whether a gain is clear at the level that is shown; a look may ask for more. Args as of ``look``."""
    if len(instances) < MIN_INSTANCES:
        return False
    return moderated(instances, level, how).low > math.log1p(min_gain)


def _is_futile(instances: Sequence[Sequence[float]], threshold: float, level: float, how: str) -> bool:
    """Whether the last look confirms with a probability below ``FUTILE``, by the pairs that there are.

    The predictive power of Spiegelhalter, Freedman, Blackburn 1986 ("Monitoring clinical trials"): the mean
    of all pairs lies around that of those seen, as far as these and those to come let it, and must exceed
    what the last look asks for.
    """
    from scipy.stats import t

    count, most = len(instances), LOOKS[-1]
    medians = [median(quads) for quads in instances]
    mean, variance_between, freedom = between_pairs(medians, how, within_variance(instances))
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
    wanting: Callable[[], bool] = lambda: False,
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
        wanting: Whether something else that has to be shown, such as percentiles, asks for more processes
            where they would confirm it; only a later look can then say otherwise.

    Returns:
        The decision and all log ratios. Without the instances of the first look nothing is confirmed.
    """
    collected, confirmed = [list(values) for values in earlier], None
    for stop, share in zip(LOOKS, SHARES, strict=True):
        while len(collected) < stop:
            values = instance(len(collected))
            if values is None:
                return confirmed or _unfinished(collected, level, how), collected
            collected.append(list(values))
        if within_wave(where, stop):
            continue
        decision = look(
            collected[:stop], min_gain, level, stop == LOOKS[-1], share, how, nodes_of(where, stop)
        )
        confirmed = decision if decision.verdict == "confirmed" else None
        if decision.verdict != "continue" and (confirmed is None or stop == LOOKS[-1] or not wanting()):
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
