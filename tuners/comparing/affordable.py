"""What a budget can tell: how many pairs of processes fit into it, and which gain these can confirm."""

import math

from advisor.tuners.comparing.measure import LOOKS, MEDIAN_EFFICIENCY, TOTAL_LEVEL

SPREAD = 0.02  # between processes, in logarithms: the median of all that was seen (measurement.md, section 4)
SEEN_BEFORE = 3  # degrees of freedom that this is worth beside those of the pairs themselves
POWER = 0.8
FEWEST, MOST = LOOKS[0], LOOKS[-1]  # pairs
TELLING = 0.2  # a gain that a budget should be able to tell


def pairs_within(seconds: float, pair_s: float) -> int:
    """Pairs of fresh processes that fit into ``seconds``, at most as many as any effect needs."""
    return min(MOST, int(max(0.0, seconds) / max(pair_s, 1e-9)))


def smallest_gain(pairs: int, sigma: float, quads: int) -> float | None:
    """The smallest relative gain that so many pairs probably confirm; ``None`` for too few of them.

    By Student's t at the confirmation's one-sided level, with the spread between processes known from before.

    Args:
        pairs: Of fresh processes, with swapped roles.
        sigma: Spread of the log ratio of one quad within a process.
        quads: In each pair.
    """
    from scipy.stats import t

    if pairs < FEWEST:
        return None
    of_pair = math.hypot(SPREAD, MEDIAN_EFFICIENCY * sigma / math.sqrt(max(1, quads)))
    freedom = pairs - 1 + SEEN_BEFORE
    quantile = float(t.ppf(1 - TOTAL_LEVEL, freedom) + t.ppf(POWER, freedom))
    return math.expm1(quantile * of_pair / math.sqrt(pairs))


def seconds_to_tell(gain: float, pair_s: float, sigma: float, quads: int) -> float | None:
    """Seconds of a confirmation that probably tells ``gain``; ``None`` where no number of pairs does.

    Args:
        gain: Relative.
        pair_s: Seconds of one pair.
        sigma: See ``smallest_gain``.
        quads: See ``smallest_gain``.
    """
    for pairs in range(FEWEST, MOST + 1):
        smallest = smallest_gain(pairs, sigma, quads)
        if smallest is not None and smallest <= gain:
            return pairs * pair_s
    return None
