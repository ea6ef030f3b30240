"""What a budget can tell: how many pairs of processes fit into it, and which gain these can confirm."""

import math

from advisor.tuners.comparing.looks import LOOKS, SHARES, TOTAL_LEVEL
from advisor.tuners.comparing.measure import MEDIAN_EFFICIENCY, expected_spread
from advisor.tuners.comparing.over_nodes import NODE_SPREAD, widened

POWER = 0.8
FEWEST, MOST = LOOKS[0], LOOKS[-1]  # pairs
TELLING = 0.2  # a gain that a budget should be able to tell


def pairs_within(seconds: float, pair_s: float) -> int:
    """Pairs of fresh processes that fit into ``seconds``, at most as many as any effect needs."""
    return min(MOST, int(max(0.0, seconds) / max(pair_s, 1e-9)))


def smallest_gain(pairs: int, sigma: float, quads: int, how: str = "", nodes: int = 1) -> float | None:
    """The smallest relative gain that so many pairs probably confirm; ``None`` for too few of them.

    By the test of that look, of those that they reach, which tells most, with the spread between processes
    that a confirmation expects (``measure.expected_spread``).

    Args:
        pairs: Of fresh processes, with swapped roles.
        sigma: Spread of the log ratio of one quad within a process.
        quads: In each pair.
        how: The way of comparing; empty for all of them together.
        nodes: That they may be spread over, both orders of roles on each.
    """
    from scipy.stats import t

    reached = [(stop, share) for stop, share in zip(LOOKS, SHARES, strict=True) if stop <= pairs]
    variance, known = _spread(sigma, quads, how)
    gains = []
    for count, share in reached:
        freedom = known + count - 1
        half, beyond = (float(t.ppf(p, freedom)) for p in (1 - TOTAL_LEVEL * share, POWER))
        error = math.sqrt(variance / count)
        needed, spread = half * error, error
        if nodes > 1:
            on = min(nodes, math.ceil(count / 2))
            needed = widened(needed, on, 1 - 2 * TOTAL_LEVEL * share)
            spread = math.hypot(error, NODE_SPREAD / math.sqrt(on))
        gains.append(math.expm1(needed + beyond * spread))
    return min(gains, default=None)


def seconds_to_tell(
    gain: float, pair_s: float, sigma: float, quads: int, how: str = "", nodes: int = 1
) -> float | None:
    """Seconds of a confirmation that probably tells ``gain``; ``None`` where no number of pairs does.

    Args:
        gain: Relative.
        pair_s: Seconds of one pair.
        sigma: See ``smallest_gain``.
        quads: See ``smallest_gain``.
        how: See ``smallest_gain``.
        nodes: See ``smallest_gain``.
    """
    pairs = fewest_pairs(gain, sigma, quads, how, nodes)
    return None if pairs is None else pairs * pair_s


def fewest_pairs(gain: float, sigma: float, quads: int, how: str = "", nodes: int = 1) -> int | None:
    """Pairs of fresh processes that probably confirm a relative ``gain``; ``None`` where no number does.

    Args as of ``smallest_gain``.
    """
    for pairs in LOOKS:
        smallest = smallest_gain(pairs, sigma, quads, how, nodes)
        if smallest is not None and smallest <= gain:
            return pairs
    return None


def half_width(pairs: int, sigma: float, quads: int, level: float, how: str = "") -> float:
    """Half of the interval, as a log ratio, that so many pairs of fresh processes probably have.

    Args:
        pairs: At least one.
        sigma: See ``smallest_gain``.
        quads: See ``smallest_gain``.
        level: Two-sided confidence.
        how: See ``smallest_gain``.
    """
    from scipy.stats import t

    variance, known = _spread(sigma, quads, how)
    return float(t.ppf(0.5 + level / 2, known + pairs - 1)) * math.sqrt(variance / pairs)


def _spread(sigma: float, quads: int, how: str) -> tuple[float, float]:
    """Variance between pairs that is expected before any is seen, and its degrees of freedom."""
    within = (MEDIAN_EFFICIENCY * sigma) ** 2 / max(1, quads)
    expected, known = expected_spread(within, quads, how)
    return max(expected, within), known
