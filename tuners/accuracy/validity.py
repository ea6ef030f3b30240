"""An output that cannot be used in place of the original's: not finite, or of another form."""

from collections.abc import Sequence

import numpy as np

from advisor.tuners.accuracy.outputs import Array, Leaf, Output


def invalid(baseline: Sequence[Output], candidate: Sequence[Output]) -> str | None:
    """Why outputs of the candidate cannot stand for those of the baseline; ``None`` if they can.

    Args:
        baseline: Outputs of the model as it is, one per sample.
        candidate: Those of the changed model for the same samples, in the same order.
    """
    if len(baseline) != len(candidate):
        return f"it gave {len(candidate)} outputs for {len(baseline)} samples"
    for number, (own, other) in enumerate(zip(baseline, candidate, strict=True), start=1):
        reason = _differs(own, other)
        if reason:
            return f"sample {number}: {reason}"
    return None


def _differs(own: Output, other: Output) -> str | None:
    if own.keys() != other.keys():
        missing = sorted(own.keys() - other.keys())
        added = sorted(other.keys() - own.keys())
        parts = [f"{what} {', '.join(map(_named, names))}"
                 for what, names in (("lacks", missing), ("adds", added)) if names]  # fmt: skip
        return f"the output {' and '.join(parts)}"
    for path, leaf in own.items():
        reason = _differs_in(leaf, other[path])
        if reason:
            return f"{_named(path)} {reason}"
    return None


def _differs_in(own: Leaf, other: Leaf) -> str | None:
    if own.dtype != other.dtype:
        return f"is {other.dtype}, and {own.dtype} in the original"
    if own.values.shape != other.values.shape:
        return f"has shape {other.values.shape}, and {own.values.shape} in the original"
    if not own.floating:
        return None
    broken = ~np.isfinite(other.values)
    if not np.array_equal(broken, ~np.isfinite(own.values)):
        return (
            "is not finite where the original is"
            if np.isfinite(own.values[broken]).any()
            else ("is finite where the original is not")
        )
    return None if _same_kind(own, other, broken) else "has other infinities than the original"


def _same_kind(own: Leaf, other: Leaf, broken: Array) -> bool:
    return np.array_equal(own.values[broken], other.values[broken], equal_nan=True)


def _named(path: str) -> str:
    return f"'{path}'" if path else "the tensor"
