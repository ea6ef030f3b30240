"""What tasks of MLPerf need at each batch size, and the noise scale that their points show."""

import csv
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from scipy.optimize import minimize_scalar

from advisor.tuners.comparing.batches.goodput import LEVEL, NoiseScale, jackknife_half_width

POINTS = Path(__file__).parent / "data" / "convergence_points.csv"
FACTOR = 4  # between the two batch sizes of a fit, as tuners/comparing/batches/noise_scale.py tries it first


@dataclass(frozen=True)
class Point:
    """What a task needs at one batch size, in a unit of its own; ``error`` is relative, of the mean."""

    batch: int
    needs: float
    error: float


def read_points(path: Path = POINTS) -> dict[str, list[Point]]:
    """All points by task, from the smallest batch to the largest."""
    tasks: dict[str, list[Point]] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            mean = float(row["mean_to_target"])
            error = float(row["sd_to_target"]) / math.sqrt(int(row["runs"])) / mean
            tasks.setdefault(row["task"], []).append(Point(int(row["batch_size"]), mean, error))
    return {task: sorted(points, key=lambda point: point.batch) for task, points in tasks.items()}


def fit(small: Point, large: Point, level: float = LEVEL) -> NoiseScale | None:
    """The noise scale of two points, as needs grow with ``noise scale + batch``; none where it is not clear.

    The interval comes from the deviation between runs.
    """
    half = NormalDist().inv_cdf(0.5 + level / 2) * math.hypot(small.error, large.error)
    ratio = large.needs / small.needs
    factor = large.batch / small.batch
    if ratio * math.exp(-half) <= 1 or ratio * math.exp(half) >= factor:
        return None

    def noise_scale(needed: float) -> float:
        return (large.batch - needed * small.batch) / (needed - 1)

    return NoiseScale(
        noise_scale(ratio), noise_scale(ratio * math.exp(half)), noise_scale(ratio * math.exp(-half)), level
    )


def fitted_pair(points: Sequence[Point]) -> tuple[Point, Point]:
    """The smallest batch, and the first of at least ``FACTOR`` times its size, or else the largest."""
    first = points[0]
    return first, next((point for point in points if point.batch >= FACTOR * first.batch), points[-1])


def shown(points: Sequence[Point]) -> NoiseScale:
    """The noise scale that all these points show, at least three, and its interval by the jackknife."""
    centre = _least_squares(points)
    half = jackknife_half_width(
        [_least_squares([*points[:index], *points[index + 1 :]]) for index in range(len(points))], LEVEL
    )
    return NoiseScale(math.exp(centre), math.exp(centre - half), math.exp(centre + half), LEVEL)


def _least_squares(points: Sequence[Point]) -> float:
    """Logarithm of the noise scale."""

    def misfit(logarithm: float) -> float:
        return statistics.pvariance(
            [math.log(point.needs) - math.log(math.exp(logarithm) + point.batch) for point in points]
        )

    low, high = math.log(points[0].batch / 8), math.log(points[-1].batch * 16)
    return float(minimize_scalar(misfit, bounds=(low, high), method="bounded").x)
