"""An exact interval for the difference of two shares of the same samples: right or wrong, before and after.

McNemar's test looks at the samples on which the two differ and asks whether there is a difference at all. A
tolerated loss needs the same for a margin: the score statistic of Tango (1998), whose probability is
computed exactly for every share of samples that may differ, and the largest of them counts, within an
interval for that share (Berger and Boos, 1994). So the error is at most the stated one with few samples too.
"""

from dataclasses import dataclass

import numpy as np

from advisor.tuners.accuracy.outputs import Array
from advisor.tuners.accuracy.shares import ALPHA, at_least, at_most, samples_for_none

NODES = 24  # shares of differing samples at which the probability is computed
FOR_SHARE = 0.02  # part of the error that the interval for the share of differing samples takes
TINY = 1e-12  # a share that is as good as none
OUTSIDE = 1e-9  # probability of numbers of differing samples that are left out
STEPS = 12  # halvings of the interval in which a bound lies


@dataclass(frozen=True)
class Changed:
    """Samples that were right and are wrong, that were wrong and are right, and all."""

    lost: int
    gained: int
    count: int

    @property
    def loss(self) -> float:
        """Difference of the two shares; positive where the candidate loses."""
        return (self.lost - self.gained) / self.count


def loss_at_most(changed: Changed, alpha: float = ALPHA) -> float:
    """Upper bound of the loss, one-sided at ``1 - alpha``."""
    differing = changed.lost + changed.gained
    low: float = changed.loss
    high: float = min(1.0, low + (4 * differing**0.5 + 16) / changed.count)
    if probability(changed, high, alpha) > alpha:
        high = 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        if probability(changed, middle, alpha) <= alpha:
            high = middle
        else:
            low = middle
    return high


def loss_at_least(changed: Changed, alpha: float = ALPHA) -> float:
    """Lower bound of the loss, one-sided at ``1 - alpha``."""
    return -loss_at_most(Changed(changed.gained, changed.lost, changed.count), alpha)


def samples_for_no_change(margin: float, alpha: float = ALPHA) -> int:
    """How many samples of which none differs bound the loss by ``margin``: 488 for 1 %.

    A few more than without samples that gain, since those may hide as many that lose.
    """
    count = samples_for_none(margin, alpha)
    while probability(Changed(0, 0, count), margin, alpha) > alpha:
        count += max(1, count // 200)
    return count


def probability(changed: Changed, margin: float, alpha: float = ALPHA) -> float:
    """Of a result as good as this or better, if the loss is ``margin``: at most.

    Args:
        changed: What was seen.
        margin: A loss between -1 and 1.
        alpha: The error it will be held against, of which the interval for the share takes its part.
    """
    count, differing = changed.count, changed.lost + changed.gained
    own_share = alpha * FOR_SHARE
    least = max(abs(margin), TINY, at_least(differing, count, own_share / 2))
    most = max(least, at_most(differing, count, own_share / 2))
    seen = _score(np.array([float(changed.lost)]), np.array([float(differing)]), count, margin)[0]
    shares = np.linspace(least, min(1.0, most), NODES)
    return min(1.0, float(_tails(shares, margin, count, seen).max()) + own_share)


def _tails(shares: Array, margin: float, count: int, seen: float) -> Array:
    """Of a score of ``seen`` at most, where each share of the samples differs and the loss is ``margin``."""
    from scipy.special import bdtr
    from scipy.stats import binom

    low, high = binom.ppf(OUTSIDE, count, shares[0]), binom.ppf(1 - OUTSIDE, count, shares[-1])
    differing = np.arange(max(0, low), high + 1)
    lost = _most_lost(differing, count, margin, seen)
    part = np.clip((shares + margin) / (2 * shares), 0.0, 1.0)[:, None]
    below = np.where(lost < 0, 0.0, bdtr(np.maximum(lost, 0), differing.astype(np.int64), part))
    tails: Array = (binom.pmf(differing, count, shares[:, None]) * below).sum(1)
    return tails


def _most_lost(differing: Array, count: int, margin: float, seen: float) -> Array:
    """For each number of differing samples the most of them lost at which the score is ``seen`` or lower."""
    low, high = np.full_like(differing, -1.0), differing.copy()
    while (low < high).any():
        middle = np.ceil((low + high) / 2)
        within = (middle < 0) | (_score(np.maximum(middle, 0), differing, count, margin) <= seen + 1e-12)
        low, high = np.where(within, middle, low), np.where(within, high, middle - 1)
    return low


def _score(lost: Array, differing: Array, count: int, margin: float) -> Array:
    """Tango's statistic: the loss beyond the margin over its standard error, were the margin the loss."""
    gained = differing - lost
    linear = -differing + margin * (2 * count - lost + gained)
    constant = -gained * margin * (1 - margin)
    root = np.sqrt(np.maximum(0.0, linear**2 - 8 * count * constant))
    share = np.clip((root - linear) / (4 * count), max(0.0, -margin), 1.0)
    variance = count * (2 * share + margin * (1 - margin))
    beyond = lost - gained - count * margin
    score: Array = beyond / np.sqrt(np.maximum(variance, 1e-12))
    return score
