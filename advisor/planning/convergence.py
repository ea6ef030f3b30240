"""Convergence points: samples that a program needs to its target at several global batches.

Samples grow with the batch as ``S(B) = S0 (1 + B / noise)`` (McCandlish and others, 2018, equation 2.11), so
points tell the gradient noise scale.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.base.errors import UsageError
from advisor.planning.points_file import positive, read_rows
from advisor.planning.predicting import Interval

COLUMNS = ("batch", "samples_to_target")
TRIED = 400  # noise scales, evenly in logarithms, from a hundredth of the least batch to 100 times the most
NINETY = 2.706  # chi-squared of one degree of freedom below which 90 % lie
LEAST_SD = 0.02  # of samples to a target in logarithms: what published means scatter by at best


@dataclass(frozen=True)
class Convergence:
    """Points of one program, fitted.

    Attributes:
        noise: Scale in samples, with its 90 % interval.
        fewest: Samples to the target at the smallest batches, S0.
        largest: Batch of the points.
    """

    noise: Interval
    fewest: float
    largest: float

    def samples(self, batch: float) -> float:
        """Samples to the target at a global batch."""
        return self.fewest * (1 + batch / self.noise.estimate)


def read_convergence(path: Path) -> Convergence:
    """The fit to the points of a file.

    Raises:
        UsageError: It cannot be read, or has fewer than two batches.
    """
    rows = [
        (positive(at, row, COLUMNS[0]), positive(at, row, COLUMNS[1])) for at, row in read_rows(path, COLUMNS)
    ]
    if len({batch for batch, _ in rows}) < 2:
        raise UsageError(
            "one batch alone tells nothing of others", hint="a row for each of at least two global batches"
        )
    return fitted(rows)


def fitted(points: Sequence[tuple[float, float]]) -> Convergence:
    """Least squares in logarithms; the interval holds the scales that the points' scatter does not exclude.

    Args:
        points: Batch and samples to the target, of at least two batches.
    """
    batches = np.array([batch for batch, _ in points])
    samples = np.log([needed for _, needed in points])
    scales = np.geomspace(batches.min() / 100, 100 * batches.max(), TRIED)
    off = samples - np.log1p(batches / scales[:, None])
    errors = ((off - off.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    best = int(errors.argmin())
    variance = max(LEAST_SD**2, float(errors[best]) / max(1, len(points) - 2))
    kept = scales[errors - errors[best] <= NINETY * variance]
    noise = Interval(float(scales[best]), float(kept.min()), float(kept.max()))
    return Convergence(noise, math.exp(float(off[best].mean())), float(batches.max()))
