"""What an output decides: the class with the largest value, a label, the tokens that were generated."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.tuners.accuracy.outputs import Array, Leaf, Output

SCORES = frozenset({"logits", "scores", "probs", "probabilities"})
"""Names under which values per class are returned, whatever their number of dimensions."""


@dataclass(frozen=True)
class Decider:
    """Where decisions stand in an output.

    Attributes:
        path: Of the leaf.
        axis: Along which the largest value decides; ``None`` where the leaf itself is the decision.
    """

    path: str
    axis: int | None


def decider(output: Output) -> Decider | None:
    """Where an output of this form decides; ``None`` where it is a quantity, a feature, a picture.

    Of several leaves one with a name for scores decides, else the first one with values per class: of
    shape ``(classes,)`` or ``(1, classes)``, and of a bare tensor also ``(1, length, classes)`` and
    ``(1, classes, height, width)``. Without any, text and whole numbers decide.
    """
    named = [path for path in output if path.rpartition(".")[2] in SCORES]
    for path in (*named, *output):
        axis = _class_axis(output[path], free=path in named or path == "")
        if axis is not None:
            return Decider(path, axis)
    for path, leaf in output.items():
        if leaf.values.dtype.kind in "iubU" and leaf.values.size:
            return Decider(path, None)
    return None


def flips(where: Decider, baseline: Output, candidate: Output) -> Array:
    """For each decision of one sample whether it differs: a flat array of booleans."""
    own, other = baseline[where.path].values, candidate[where.path].values
    if where.axis is None:
        return np.array([not np.array_equal(own, other)])
    return np.ravel(own.argmax(where.axis) != other.argmax(where.axis))


def divergence(where: Decider, baseline: Output, candidate: Output) -> float | None:
    """Mean Kullback-Leibler divergence of the candidate's distributions from the baseline's, in nats.

    Values that are not distributions already are taken for logits. ``None`` where nothing is scored.
    """
    if where.axis is None:
        return None
    own = _log_shares(baseline[where.path].values, where.axis)
    other = _log_shares(candidate[where.path].values, where.axis)
    with np.errstate(invalid="ignore"):  # a class that is impossible in both adds nothing
        terms = np.where(np.isneginf(own), 0.0, np.exp(own) * (own - other))
    return float(np.mean(terms.sum(where.axis)))


def independent_flips(each: Sequence[Array], seed: int = 0) -> int:
    """Samples that differ in a decision drawn from each of them.

    Tokens of one text and pixels of one picture depend on each other, so that an exact bound holds for one
    of them per sample only.
    """
    generator = np.random.default_rng(seed)
    return int(sum(bool(flipped[generator.integers(len(flipped))]) for flipped in each))


def _class_axis(leaf: Leaf, free: bool) -> int | None:
    shape = leaf.values.shape
    if not leaf.floating or leaf.values.size == 0:
        return None
    if len(shape) == 1 or (len(shape) == 2 and shape[0] == 1):
        return len(shape) - 1 if shape[-1] > 1 else None
    if not free or len(shape) < 2:
        return None
    axis = 1 if len(shape) >= 4 else len(shape) - 1
    return axis if shape[axis] > 1 else None


def _log_shares(values: Array, axis: int) -> Array:
    values = values.astype(np.float64)
    total = values.sum(axis, keepdims=True)
    with np.errstate(divide="ignore"):
        if (values >= 0).all() and np.allclose(total, 1.0, atol=1e-3):
            shares: Array = np.log(values / total)
            return shares
        shifted = values - values.max(axis, keepdims=True)
        logs: Array = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
        return logs
