"""Does goodput choose a better batch size than throughput? Replayed on public convergence points of MLPerf.

    python benchmarks/goodput.py

How many samples a task needs at each batch size is known (benchmarks/data); how fast a machine makes them is
a curve: in proportion to the batch up to a knee and constant beyond it, or a fixed cost per step beside a
cost per sample ("gradual", with the knee where both are equal). The noise scale is fitted from the needs at
two batch sizes alone, the smallest and the first of at least four times as many samples: what a tuner could
have measured. Where no noise scale results, the smallest batch is kept. A case counts as held out when its
best batch is neither of those two.

How much of what is lost is the estimate's: "noise scale known" takes the one that all points of a task show
(least squares of the logarithms), "known but for the best" the one of all but the case's best batch, and "in
hindsight" is what the noise scale that suits each task and curve best would reach: no estimate does better.
Pure arithmetic; takes seconds.
"""

import argparse
import csv
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from conditions import conditions
from scipy.optimize import minimize_scalar

from advisor.tuners.goodput import LEVEL, Candidate, NoiseScale, choose_batch
from advisor.tuners.measure import Estimate

FOLDER = Path(__file__).parent
POINTS = FOLDER / "data" / "convergence_points.csv"
RESULTS = FOLDER / "results" / "goodput.json"
FACTOR = 4  # between the two batch sizes of a fit, as tuners/noise_scale.py tries it first
OTHER_FACTORS = (2, 8)  # range of factors between the pairs of the second look
CLOSE = 0.05  # of the best time to the target
AIM = 0.9  # share of cases
HINDSIGHT = 64  # noise scales tried, from an eighth of the smallest batch to sixteen times the largest


@dataclass(frozen=True)
class Point:
    """What a task needs at one batch size, in a unit of its own; ``error`` is relative, of the mean."""

    batch: int
    needs: float
    error: float


@dataclass(frozen=True)
class Case:
    """One task on one curve: the batch sizes chosen, and by what share each takes longer than the best."""

    task: str
    curve: str
    knee: int
    best: int
    held_out: bool
    by_goodput: int
    loss_goodput: float
    by_throughput: int
    loss_throughput: float
    by_largest: int
    loss_largest: float


Curve = Callable[[float, float], float]
CURVES: dict[str, Curve] = {
    "knee": lambda batch, knee: min(batch, knee),
    "gradual": lambda batch, knee: batch * knee / (batch + knee),
}


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
    """The noise scale that all these points show, taken for exact."""

    def misfit(logarithm: float) -> float:
        return statistics.pvariance(
            [math.log(point.needs) - math.log(math.exp(logarithm) + point.batch) for point in points]
        )

    low, high = math.log(points[0].batch / 8), math.log(points[-1].batch * 16)
    fitted = math.exp(float(minimize_scalar(misfit, bounds=(low, high), method="bounded").x))
    return NoiseScale(fitted, fitted, fitted)


def knees(points: Sequence[Point]) -> list[int]:
    """From the smallest batch, doubled up to the largest."""
    doublings = int(math.log2(points[-1].batch / points[0].batch))
    return [points[0].batch * 2**doubling for doubling in range(doublings + 1)]


def advise(points: Sequence[Point], speed: Callable[[int], float], noise: NoiseScale | None) -> int:
    """The batch size that goodput chooses, knowing throughput exactly; the smallest without a noise scale."""
    present = points[0].batch
    if noise is None:
        return present
    candidates = []
    for point in points:
        ratio = math.log(speed(point.batch) / speed(present))
        candidates.append(Candidate(point.batch, Estimate(ratio, ratio, ratio, LEVEL, 1, 1)))
    return choose_batch(candidates, present, noise).batch


def replay(
    task: str,
    points: Sequence[Point],
    curve: str,
    knee: int,
    pair: tuple[Point, Point] | None = None,
    noise: NoiseScale | None = None,
) -> Case:
    """One case.

    Args:
        task: Its name.
        points: Its points.
        curve: A name in ``CURVES``.
        knee: Where the curve bends.
        pair: What the noise scale is fitted from, if not the usual two.
        noise: The noise scale, if it is known.
    """
    used = pair or fitted_pair(points)

    def speed(batch: int) -> float:
        return CURVES[curve](batch, knee)

    time = {point.batch: point.needs / speed(point.batch) for point in points}
    best = min(time, key=lambda batch: time[batch])
    chosen = advise(points, speed, noise or fit(*used))
    fastest = max(time, key=lambda batch: (speed(batch), -batch))  # the smallest of equals
    largest = points[-1].batch
    return Case(
        task, curve, knee, best, best not in {point.batch for point in used},
        chosen, time[chosen] / time[best] - 1,
        fastest, time[fastest] / time[best] - 1,
        largest, time[largest] / time[best] - 1,
    )  # fmt: skip


def summary(cases: Sequence[Case]) -> dict[str, Any]:
    """Shares of cases close to the best, and losses of the three ways to choose."""
    ways = {
        "goodput": [case.loss_goodput for case in cases],
        "throughput": [case.loss_throughput for case in cases],
        "largest": [case.loss_largest for case in cases],
    }
    return {
        "cases": len(cases),
        **{
            way: {
                "close": round(statistics.fmean(loss <= CLOSE for loss in losses), 4),
                "median_loss": round(statistics.median(losses), 4),
                "worst_loss": round(max(losses), 4),
            }
            for way, losses in ways.items()
            if losses
        },
    }


def all_cases(tasks: dict[str, list[Point]]) -> list[Case]:
    """Every task on every curve."""
    return [
        replay(task, points, curve, knee)
        for task, points in tasks.items()
        for curve in CURVES
        for knee in knees(points)
    ]


def other_fits(tasks: dict[str, list[Point]]) -> list[Case]:
    """The same with every pair of points that a tuner might have started from and compared with."""
    low, high = OTHER_FACTORS
    return [
        replay(task, points, curve, knee, (one, other))
        for task, points in tasks.items()
        for one in points
        for other in points
        if low <= other.batch / one.batch <= high
        for curve in CURVES
        for knee in knees(points)
    ]


def with_known(tasks: dict[str, list[Point]], *, but_best: bool = False) -> list[Case]:
    """Every case with the noise scale that the points of its task show: all of them, or all but the best."""
    cases = []
    for case in all_cases(tasks):
        points = tasks[case.task]
        seen = [point for point in points if not (but_best and point.batch == case.best)]
        cases.append(replay(case.task, points, case.curve, case.knee, noise=shown(seen)))
    return cases


def in_hindsight(tasks: dict[str, list[Point]]) -> dict[str, float]:
    """Shares of cases close to the best with the noise scale that suits each task and curve best."""
    close = {
        curve: [case for points in tasks.values() for case in _suited(points, CURVES[curve])]
        for curve in CURVES
    }
    shares = {curve: statistics.fmean(cases) for curve, cases in close.items()}
    every = statistics.fmean(case for cases in close.values() for case in cases)
    return {name: round(share, 4) for name, share in {"all": every, **shares}.items()}


def _suited(points: Sequence[Point], curve: Curve) -> list[bool]:
    """Whether the choice is close to the best, knee by knee, with the noise scale of which most are."""
    low, high = math.log(points[0].batch / 8), math.log(points[-1].batch * 16)
    scales = [math.exp(low + (high - low) * step / (HINDSIGHT - 1)) for step in range(HINDSIGHT)]

    def close(scale: float, knee: int) -> bool:
        goodput = {point.batch: curve(point.batch, knee) / (scale + point.batch) for point in points}
        time = {point.batch: point.needs / curve(point.batch, knee) for point in points}
        return time[max(goodput, key=goodput.__getitem__)] <= (1 + CLOSE) * min(time.values())

    return max(([close(scale, knee) for knee in knees(points)] for scale in scales), key=sum)


def results(tasks: dict[str, list[Point]]) -> dict[str, Any]:
    """Everything that is written but the conditions."""
    cases, others = all_cases(tasks), other_fits(tasks)
    fits = {}
    for task, points in tasks.items():
        pair = fitted_pair(points)
        noise = fit(*pair)
        fits[task] = {
            "from": [point.batch for point in pair],
            "noise_scale": None if noise is None else {k: round(v, 2) for k, v in asdict(noise).items()},
        }
    return {
        "aim": AIM,
        "close": CLOSE,
        "all": summary(cases),
        "held_out": summary([case for case in cases if case.held_out]),
        "by_curve": {curve: summary([case for case in cases if case.curve == curve]) for curve in CURVES},
        "held_out_by_curve": {
            curve: summary([case for case in cases if case.held_out and case.curve == curve])
            for curve in CURVES
        },
        "by_task": {task: summary([case for case in cases if case.task == task]) for task in tasks},
        "fitted_from_other_pairs": summary(others),
        "noise_scale_known": summary(with_known(tasks)),
        "noise_scale_known_but_for_the_best": summary(with_known(tasks, but_best=True)),
        "in_hindsight": in_hindsight(tasks),
        "fits": fits,
        "rows": [asdict(case) for case in cases],
    }


def main() -> None:
    """Replay, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = results(read_points())
    options.out.write_text(json.dumps({"conditions": conditions(), **found}, indent=1) + "\n")
    sets = {
        "all cases": found["all"],
        "best batch not fitted from": found["held_out"],
        **{f"{curve} curve": told for curve, told in found["by_curve"].items()},
        **{f"{curve} curve, not fitted from": told for curve, told in found["held_out_by_curve"].items()},
        **found["by_task"],
        "fitted from other pairs": found["fitted_from_other_pairs"],
        "noise scale known": found["noise_scale_known"],
        "noise scale known but for the best": found["noise_scale_known_but_for_the_best"],
    }
    print(f"within {CLOSE:.0%} of the best time to the target, and median loss (aim {AIM:.0%} by goodput)")
    for name, told in sets.items():
        ways = ("goodput", "throughput", "largest")
        shown = ", ".join(f"{way} {told[way]['close']:.0%} {told[way]['median_loss']:.1%}" for way in ways)
        print(f"{name}: {told['cases']} cases, {shown}")
    told = ", ".join(f"{name} {share:.0%}" for name, share in found["in_hindsight"].items())
    print(f"goodput with the noise scale chosen in hindsight: {told}")


if __name__ == "__main__":
    main()
