"""Exact bounds on a share of which some cases were seen (Clopper and Pearson, 1934)."""

import math

ALPHA = 0.01
"""Of a one-sided bound: a share beyond it is missed in at most one of a hundred measurements."""


def at_most(seen: int, count: int, alpha: float = ALPHA) -> float:
    """The largest share under which ``seen`` of ``count`` or fewer have a probability of ``alpha``."""
    from scipy.stats import beta

    if seen >= count:
        return 1.0
    return float(beta.ppf(1 - alpha, seen + 1, count - seen))


def at_least(seen: int, count: int, alpha: float = ALPHA) -> float:
    """The smallest share under which ``seen`` of ``count`` or more have a probability of ``alpha``."""
    return 1.0 - at_most(count - seen, count, alpha)


def samples_for_none(share: float, alpha: float = ALPHA) -> int:
    """How many cases without one that counts bound their share by ``share``: 459 for 1 %."""
    if share >= 1:
        return 1
    return math.ceil(math.log(alpha) / math.log1p(-share))


def samples_for_margin(share: float, margin: float) -> int:
    """Samples on which a difference can be told from ``margin``, if ``share`` of them differ at all.

    ``5.41 * share / margin**2``: the squared quantile of the normal distribution at 99 %, times the variance
    of differences of one.
    """
    return math.ceil(5.41 * share / margin**2)
