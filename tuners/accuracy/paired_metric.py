"""The relative loss of a metric that scores every sample, before and after, with a one-sided interval.

The same samples are scored under both models, so that what makes one harder than another cancels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.tuners.accuracy.outputs import Array
from advisor.tuners.accuracy.paired_binary import Changed, loss_at_least, loss_at_most, samples_for_no_change
from advisor.tuners.accuracy.shares import ALPHA, samples_for_margin, samples_for_none

RESAMPLES = 4000
AT_ONCE = 2_000_000  # values drawn together, which bounds memory


@dataclass(frozen=True)
class Loss:
    """What the metric loses, as a share of the baseline's; below 0 where it gains.

    Attributes:
        baseline: Mean score of the model as it is.
        candidate: Of the changed one.
        loss: Relative.
        low: Lower bound, one-sided at 99 %.
        high: Upper bound, one-sided at 99 %.
        samples: On how many.
        spread: Variance of the differences; of 0/1 scores the share of samples that differ.
        binary: Scores are 0 or 1.
    """

    baseline: float
    candidate: float
    loss: float
    low: float
    high: float
    samples: int
    spread: float
    binary: bool

    @property
    def told(self) -> str:
        """In a sentence."""
        return (
            f"the metric goes from {self.baseline:.4g} to {self.candidate:.4g}, a loss of {self.loss:.2%} "
            f"(99 % one-sided: {self.low:.2%} to {self.high:.2%}, {self.samples} samples)"
        )

    def samples_needed(self, max_loss: float) -> int:
        """Samples that would do for ``max_loss``, if the loss is what it was here.

        Where it was not below ``max_loss``: if there is none.
        """
        room = max_loss - self.loss if 0 < self.loss < max_loss else max_loss
        least = samples_for_no_change(max_loss * self.baseline) if self.binary else samples_for_none(max_loss)
        return max(samples_for_margin(self.spread, room * self.baseline), least)


class NoRelativeLoss(ValueError):
    """The baseline's mean score is not positive, so a part of it means nothing."""


def paired_loss(
    baseline: Sequence[float] | Array,
    candidate: Sequence[float] | Array,
    *,
    higher_is_better: bool = True,
    seed: int = 0,
) -> Loss:
    """Compare scores of the same samples, in the same order.

    Scores that are all 0 or 1 are compared exactly, others by a studentised bootstrap, which holds its error
    for skewed scores too. A loss that no sample shows may still be that of a share of samples of which none
    was drawn: the upper bound is never below that share.

    Raises:
        ValueError: There are no samples, a score is not finite, or the numbers of scores differ.
        NoRelativeLoss: The baseline's mean score is not positive.
    """
    own, other = np.asarray(baseline, np.float64), np.asarray(candidate, np.float64)
    if own.shape != other.shape or own.ndim != 1 or not own.size:
        raise ValueError(f"{own.size} scores of the baseline and {other.size} of the candidate")
    if not np.isfinite(other).all() or not np.isfinite(own).all():
        raise ValueError("a score is NaN or infinite")
    mean = float(own.mean())
    if mean <= 0:
        raise NoRelativeLoss(f"the original's mean score is {mean:.3g}: a relative loss needs a positive one")
    sign = 1.0 if higher_is_better else -1.0
    binary = bool(np.isin(own, (0.0, 1.0)).all() and np.isin(other, (0.0, 1.0)).all())
    if binary:
        worse = sign * (own - other)
        changed = Changed(int((worse > 0).sum()), int((worse < 0).sum()), own.size)
        loss, low, high = (
            each / mean for each in (changed.loss, loss_at_least(changed), loss_at_most(changed))
        )
        spread = (changed.lost + changed.gained) / changed.count
    else:
        loss, low, high = _bootstrap(own, other, sign, seed)
        unseen = 1 - ALPHA ** (1 / own.size)
        high = max(high, loss + unseen)
        spread = float(np.var(other - (1 - sign * loss) * own))
    return Loss(mean, float(other.mean()), loss, low, high, own.size, spread, binary)


def _bootstrap(own: Array, other: Array, sign: float, seed: int) -> tuple[float, float, float]:
    """The relative loss and its two one-sided bounds."""
    from scipy import stats

    generator = np.random.default_rng(seed)
    count = own.size
    loss, error = _ratio(own, other, sign)
    if error == 0:
        return float(loss), float(loss), float(loss)
    scores: list[Array] = []
    rows = max(1, AT_ONCE // count)
    for start in range(0, RESAMPLES, rows):
        drawn = generator.integers(count, size=(min(rows, RESAMPLES - start), count))
        losses, errors = _ratio(own[drawn], other[drawn], sign)
        scores.append((losses - loss) / np.maximum(errors, 1e-3 * error))
    below, above = np.quantile(np.concatenate(scores), [ALPHA, 1 - ALPHA])
    student = float(stats.t.ppf(1 - ALPHA, count - 1))  # the wider one counts: quantiles of draws vary, too
    low, high = max(student, above), max(student, -below)
    return float(loss), float(loss - low * error), float(loss + high * error)


def _ratio(own: Array, other: Array, sign: float) -> tuple[Array, Array]:
    """Relative loss over the last axis and its standard error, to first order."""
    count = own.shape[-1]
    mean = own.mean(-1)
    ratio = other.mean(-1) / np.where(mean == 0, np.nan, mean)
    rest = other - ratio[..., None] * own
    error = rest.std(-1, ddof=min(1, count - 1)) / np.abs(mean) / np.sqrt(count)
    return sign * (1 - ratio), error
