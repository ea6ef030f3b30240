"""How far the outputs of a changed model are from the original's, on samples that neither was tuned on.

A mean hides what matters: with int8 kernels that saturate, a cosine of 0.99 went with one changed decision in
nine. Decisions that change show what equal accuracy hides, too (arXiv 2407.09141).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.tuners.accuracy.decisions import decider, divergence, flips, independent_flips
from advisor.tuners.accuracy.outputs import Array, Output
from advisor.tuners.accuracy.shares import at_most


@dataclass(frozen=True)
class Agreement:
    """Differences of a candidate from the baseline.

    Attributes:
        samples: On how many.
        relative_rms: Root of the mean squared difference over that of the baseline's values; of the leaf in
            which it is largest.
        largest: Largest difference of a value over the same root; of the leaf in which it is largest.
        flips: Samples with a changed decision; of a sample with many one is drawn. ``None`` where outputs
            decide nothing.
        flip_share: Share of all decisions that changed.
        flips_at_most: Upper bound of their share at 99 %.
        divergence: Mean Kullback-Leibler divergence in nats; ``None`` without values per class.
        other_values: Samples in which whole numbers or text differ, such as labels and tokens.
    """

    samples: int
    relative_rms: float
    largest: float
    flips: int | None = None
    flip_share: float | None = None
    flips_at_most: float | None = None
    divergence: float | None = None
    other_values: int = 0


def agreement(baseline: Sequence[Output], candidate: Sequence[Output]) -> Agreement:
    """Compare outputs for the same samples, in the same order; each pair has one form, samples may differ.

    Raises:
        ValueError: There is no sample.
    """
    if not baseline:
        raise ValueError("without a sample nothing can be compared")
    pairs = list(zip(baseline, candidate, strict=True))
    distances = [_distance(path, pairs) for path in _floating(baseline)]
    rms = max((each[0] for each in distances), default=0.0)
    largest = max((each[1] for each in distances), default=0.0)
    others = sum(_has_other_values(own, other) for own, other in pairs)
    deciding = [(where, own, other) for own, other in pairs if (where := decider(own)) is not None]
    if not deciding:
        return Agreement(len(pairs), rms, largest, other_values=others)
    flipped = [flips(where, own, other) for where, own, other in deciding]
    changed = independent_flips(flipped)
    each_divergence = [divergence(where, own, other) for where, own, other in deciding]
    known = [value for value in each_divergence if value is not None]
    return Agreement(
        len(pairs),
        rms,
        largest,
        changed,
        float(np.mean(np.concatenate(flipped))),
        at_most(changed, len(deciding)),
        float(np.mean(known)) if known else None,
        others,
    )


def relative_rms(baseline: Sequence[Output], candidate: Sequence[Output]) -> float:
    """That of the leaf in which it is largest; 0 where no leaf holds floating numbers."""
    pairs = list(zip(baseline, candidate, strict=True))
    return max((_distance(path, pairs)[0] for path in _floating(baseline)), default=0.0)


def _floating(outputs: Sequence[Output]) -> list[str]:
    """Leaves with floating numbers, of all samples: a model may answer one with more than another."""
    return list(dict.fromkeys(path for own in outputs for path, leaf in own.items() if leaf.floating))


def _has_other_values(own: Output, other: Output) -> bool:
    """Whether a leaf that roundings do not change by little holds something else."""
    return any(
        not leaf.floating and not np.array_equal(leaf.values, other[path].values)
        for path, leaf in own.items()
    )


def _distance(path: str, pairs: Sequence[tuple[Output, Output]]) -> tuple[float, float]:
    """Root mean square and largest absolute of the differences, over the root mean square of the values."""
    squared = values = largest = 0.0
    count = 0
    for own, other in _finite(path, pairs):
        apart = np.abs(other - own)
        squared += float(np.sum(apart**2))
        values += float(np.sum(np.abs(own) ** 2))
        largest = max(largest, float(apart.max(initial=0.0)))
        count += own.size
    if squared == 0:
        return 0.0, 0.0
    if values == 0 or not math.isfinite(squared):
        return float("inf"), float("inf")
    return (squared / values) ** 0.5, largest / (values / count) ** 0.5


def _finite(path: str, pairs: Sequence[tuple[Output, Output]]) -> Iterator[tuple[Array, Array]]:
    """The values that are finite in the baseline: masks are often infinite."""
    for own, other in pairs:
        if path not in own:
            continue
        first, second = own[path].values, other[path].values
        kept = np.isfinite(first)
        wide = np.complex128 if first.dtype.kind == "c" else np.float64
        yield first[kept].astype(wide), second[kept].astype(wide)
