"""Whether a changed model says what the original says: the accuracy gate of inference.

In this order, and the first that fails decides: validity of the outputs, the int8 kernel against its own
dequantised reference, agreement on unseen samples, the user's metric with a paired interval. What may only
reorder roundings keeps the bounds that training has; what computes with fewer bits is held to a tolerated
loss, 1 % of the original's score by default (as by MLPerf and Intel Neural Compressor), at 99 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from advisor.tuners.accuracy.agreement import Agreement, agreement
from advisor.tuners.accuracy.kernel_reference import KernelCheck, kernel_check
from advisor.tuners.accuracy.outputs import Output
from advisor.tuners.accuracy.paired_metric import Loss, NoRelativeLoss, paired_loss
from advisor.tuners.accuracy.shares import at_least, samples_for_margin, samples_for_none
from advisor.tuners.accuracy.validity import invalid
from advisor.tuners.knob import Semantics

MAX_LOSS = 0.01  # relative
FIXED_BOUNDS = {Semantics.EXACT: 1e-6, Semantics.ROUNDING: 1e-4}
"""Relative root mean square, as for the losses of training."""
TIMES_OWN = 2.0  # as far as the baseline is from itself


@dataclass(frozen=True)
class Scores:
    """What the user's metric says, higher being better unless said otherwise.

    Attributes:
        baseline: One score per sample, or a single one of the whole set.
        candidate: The same under the change.
        per_sample: Whether samples are scored one by one, so that there is an interval.
    """

    baseline: Sequence[float]
    candidate: Sequence[float]
    higher_is_better: bool = True
    per_sample: bool = True


@dataclass(frozen=True)
class Acceptance:
    """What the gate says of a candidate, and the figures behind it.

    Attributes:
        verdict: ``accepted``, ``refused``, or ``not_decidable`` where there are too few samples.
        by: The check that decided.
        reason: In a sentence.
        agreement: On unseen samples; ``None`` where outputs were not valid.
        own: The baseline run twice.
        kernel: Where there is a dequantised reference.
        loss: Of the metric, where samples are scored.
        samples_needed: That would decide, where these do not.
    """

    verdict: Literal["accepted", "refused", "not_decidable"]
    by: Literal["validity", "kernel", "agreement", "metric"]
    reason: str
    agreement: Agreement | None = None
    own: Agreement | None = None
    kernel: KernelCheck | None = None
    loss: Loss | None = None
    samples_needed: int | None = None


def accept(
    baseline: Sequence[Output],
    candidate: Sequence[Output],
    semantics: Semantics,
    *,
    own: Agreement | None = None,
    reference: Sequence[Output] | None = None,
    scores: Scores | None = None,
    max_loss: float = MAX_LOSS,
) -> Acceptance:
    """Judge outputs on samples that were used neither to calibrate nor to choose the candidate.

    Args:
        baseline: Outputs of the model as it is, one per sample.
        candidate: Those of the changed model for the same samples, in the same order.
        semantics: The widest of all changed knobs.
        own: Of the baseline with a second run of itself: the yardstick of chance.
        reference: Outputs of the candidate's dequantised reference, for the first of the samples.
        scores: What the user's metric says of both, if there is one.
        max_loss: Tolerated relative loss, above 0.

    Raises:
        ValueError: There are no samples, or ``max_loss`` is not above 0.
    """
    if not max_loss > 0:
        raise ValueError(f"a tolerated loss of {max_loss} can never be shown; it must be above 0")
    broken = invalid(baseline, candidate)
    if broken:
        return Acceptance("refused", "validity", broken)
    shown = agreement(baseline, candidate)
    kernel = None
    if reference is not None:
        count = len(reference)
        kernel = kernel_check(baseline[:count], reference, candidate[:count])
        if kernel.saturated:
            return Acceptance("refused", "kernel", kernel.told, shown, own, kernel)
    if semantics in FIXED_BOUNDS:
        return _by_bound(shown, own, semantics, max_loss)
    if scores is not None and scores.per_sample:
        return _by_metric(shown, own, kernel, scores, max_loss)
    if scores is not None:
        point = _point_loss(scores)
        if point is not None and not point <= max_loss:  # a NaN is no score either
            reason = f"the metric of the whole set loses {point:.2%}, and {max_loss:.2%} are tolerated"
            return Acceptance("refused", "metric", reason, shown, own, kernel)
    return _by_flips(shown, own, kernel, max_loss)


def _by_bound(shown: Agreement, own: Agreement | None, semantics: Semantics, max_loss: float) -> Acceptance:
    """By how far roundings may move outputs, and how seldom they may turn a label or token into another."""
    bound = max(FIXED_BOUNDS[semantics], TIMES_OWN * own.relative_rms if own else 0.0)
    told = (
        f"outputs for {shown.samples} samples differ by {shown.relative_rms:.2g} relative; "
        f"allowed are {bound:.2g}"
    )
    if shown.relative_rms > bound:
        return Acceptance("refused", "agreement", told, shown, own)
    tolerated = max_loss if semantics is Semantics.ROUNDING else 0.0
    count = shown.other_values
    of_itself = TIMES_OWN * own.other_values / own.samples if own else 0.0
    if count <= max(tolerated, of_itself) * shown.samples:
        return Acceptance("accepted", "agreement", told, shown, own)
    told = f"whole numbers or text differ in the outputs for {count} of {shown.samples} samples"
    if at_least(count, shown.samples) > tolerated:
        return Acceptance("refused", "agreement", f"{told}; {tolerated:.2%} are tolerated", shown, own)
    needed = max(shown.samples + 1, samples_for_none(max_loss))
    reason = f"{told}; to tell them from {tolerated:.2%} takes about {needed:,} samples"
    return Acceptance("not_decidable", "agreement", reason, shown, own, samples_needed=needed)


def _by_metric(
    shown: Agreement, own: Agreement | None, kernel: KernelCheck | None, scores: Scores, max_loss: float
) -> Acceptance:
    """By the user's metric, sample by sample."""
    try:
        loss = paired_loss(scores.baseline, scores.candidate, higher_is_better=scores.higher_is_better)
    except NoRelativeLoss as missing:
        return Acceptance("not_decidable", "metric", str(missing), shown, own, kernel)
    if loss.high <= max_loss:
        return Acceptance("accepted", "metric", loss.told, shown, own, kernel, loss)
    if loss.loss > max_loss and loss.low > 0:  # it does lose, and more than is tolerated if anything
        reason = f"{loss.told}; tolerated are {max_loss:.2%}"
        return Acceptance("refused", "metric", reason, shown, own, kernel, loss)
    needed = max(loss.samples_needed(max_loss), loss.samples + 1)
    reason = f"{loss.told}; to tell it from {max_loss:.2%} takes about {needed:,} samples"
    return Acceptance("not_decidable", "metric", reason, shown, own, kernel, loss, needed)


def _by_flips(
    shown: Agreement, own: Agreement | None, kernel: KernelCheck | None, max_loss: float
) -> Acceptance:
    """By the decisions that change, where nothing says which of them are right."""
    if shown.flips is None or shown.flips_at_most is None:
        reason = (
            f"outputs for {shown.samples} samples differ by {shown.relative_rms:.2g} relative and decide "
            "nothing that could be counted: a metric per sample is needed (metric=...)"
        )
        return Acceptance("not_decidable", "agreement", reason, shown, own, kernel)
    told = (
        f"{shown.flips} of {shown.samples} decisions change, at most {shown.flips_at_most:.2%} of all (99 %)"
    )
    if shown.flips_at_most <= max_loss:
        return Acceptance("accepted", "agreement", told, shown, own, kernel)
    if at_least(shown.flips, shown.samples) > max_loss:
        reason = f"{told}; without a metric per sample {max_loss:.2%} are tolerated"
        return Acceptance("refused", "agreement", reason, shown, own, kernel)
    needed = _samples_for_flips(shown, max_loss)
    reason = f"{told}; to tell them from {max_loss:.2%} takes about {needed:,} samples"
    return Acceptance("not_decidable", "agreement", reason, shown, own, kernel, None, needed)


def _samples_for_flips(shown: Agreement, max_loss: float) -> int:
    """That would bound the share of flips by ``max_loss``, if it is what was seen, or none."""
    seen = (shown.flips or 0) / shown.samples
    if not 0 < seen < max_loss:
        return max(shown.samples + 1, samples_for_none(max_loss))
    return max(shown.samples + 1, samples_for_margin(max_loss, max_loss - seen), samples_for_none(max_loss))


def _point_loss(scores: Scores) -> float | None:
    """The relative loss of a metric without an interval; ``None`` where it has no meaning."""
    own, other = scores.baseline[0], scores.candidate[0]
    if not own > 0:
        return None
    loss = 1 - other / own
    return loss if scores.higher_is_better else -loss
