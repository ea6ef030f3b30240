"""Does goodput choose a better batch size than throughput? Replayed on public convergence points of MLPerf.

    python benchmarks/goodput.py

How many samples a task needs at each batch size is known (benchmarks/data); how fast a machine makes them is
a curve: in proportion to the batch up to a knee and constant beyond it, or a fixed cost per step beside a
cost per sample ("gradual", with the knee where both are equal). ``tune`` measures a task's noise scale from
gradient norms, which these data do not have, so it is taken from the needs, in three ways: "of the task"
from all of its points (least squares of the logarithms, with an interval by leaving out each in turn), "but
for the best" from all but the case's best batch, and "of two batch sizes" from the smallest and the first of
at least four times as many samples; held out are the cases of which neither is the best. Where no noise scale
results, the smallest batch is kept. "In hindsight" takes the one that suits each task and curve best.

Then the noise scale of the task is given errors of a known size: how often the choice is close to the best
when the estimate of goodput decides, as in ``tune``, and when its lower quartile does.
Pure arithmetic; takes seconds.
"""

import argparse
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from conditions import conditions
from convergence import Point, fit, fitted_pair, read_points, shown

from advisor.tuners.comparing.batches.goodput import (
    LEVEL,
    Candidate,
    NoiseScale,
    choose_batch,
    preferred,
    rate,
)
from advisor.tuners.comparing.measure import Estimate

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results" / "goodput.json"
OTHER_FACTORS = (2, 8)  # range of factors between the pairs of the second look
CLOSE = 0.05  # of the best time to the target
AIM = 0.9  # share of cases
SURE = NormalDist().inv_cdf(0.95)  # one-sided, of the deviation between runs
ERRORS = (0.1, 0.2, 0.4, 0.8)  # of a noise scale, relative: half of the interval at LEVEL
DRAWN = 10  # errors of each size, at equal distances of probability
SOURCES = (
    "of_the_task", "of_the_task_dense", "but_for_the_best",
    "of_two_batch_sizes", "of_two_batch_sizes_held_out", "of_other_pairs",
)  # fmt: skip
DENSE = 4  # knees for each doubling of the batch, to see what hangs on where the curves bend
HINDSIGHT = 64  # noise scales tried, from an eighth of the smallest batch to sixteen times the largest


@dataclass(frozen=True)
class Case:
    """One task on one curve: the batch sizes chosen, and by what share each takes longer than the best.

    ``least`` is the lower bound of that share (one-sided, ``SURE``) by the errors of the two points.
    """

    task: str
    curve: str
    knee: int
    best: int
    held_out: bool
    by_goodput: int
    loss_goodput: float
    least_goodput: float
    by_throughput: int
    loss_throughput: float
    least_throughput: float
    by_largest: int
    loss_largest: float
    least_largest: float


Curve = Callable[[float, float], float]
CURVES: dict[str, Curve] = {
    "knee": lambda batch, knee: min(batch, knee),
    "gradual": lambda batch, knee: batch * knee / (batch + knee),
}


def knees(points: Sequence[Point], per_doubling: int = 1) -> list[int]:
    """From the smallest batch to the largest, so many for each doubling."""
    steps = int(per_doubling * math.log2(points[-1].batch / points[0].batch))
    return [round(points[0].batch * 2 ** (step / per_doubling)) for step in range(steps + 1)]


def advise(points: Sequence[Point], speed: Callable[[int], float], noise: NoiseScale | None) -> int:
    """The batch size that goodput chooses, knowing throughput exactly; the smallest without a noise scale."""
    present = points[0].batch
    if noise is None:
        return present
    return choose_batch(_candidates(points, speed), present, noise).batch


def _candidates(points: Sequence[Point], speed: Callable[[int], float]) -> list[Candidate]:
    found = []
    for point in points[1:]:
        ratio = math.log(speed(point.batch) / speed(points[0].batch))
        found.append(Candidate(point.batch, Estimate(ratio, ratio, ratio, LEVEL, 1, 1)))
    return found


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
    error = {point.batch: point.error for point in points}
    best = min(time, key=lambda batch: time[batch])

    def loss(batch: int) -> tuple[float, float]:
        ratio = time[batch] / time[best]
        half = 0.0 if batch == best else SURE * math.hypot(error[batch], error[best])
        return ratio - 1, ratio * math.exp(-half) - 1

    chosen = advise(points, speed, noise or fit(*used))
    fastest = max(time, key=lambda batch: (speed(batch), -batch))  # the smallest of equals
    largest = points[-1].batch
    return Case(
        task, curve, knee, best, best not in {point.batch for point in used},
        chosen, *loss(chosen),
        fastest, *loss(fastest),
        largest, *loss(largest),
    )  # fmt: skip


def summary(cases: Sequence[Case]) -> dict[str, Any]:
    """Shares of cases close to the best, and losses of the three ways to choose."""
    ways = {
        "goodput": [(case.loss_goodput, case.least_goodput) for case in cases],
        "throughput": [(case.loss_throughput, case.least_throughput) for case in cases],
        "largest": [(case.loss_largest, case.least_largest) for case in cases],
    }
    return {
        "cases": len(cases),
        **{
            way: {
                "close": round(statistics.fmean(loss <= CLOSE for loss, _ in losses), 4),
                "not_surely_farther": round(statistics.fmean(least <= CLOSE for _, least in losses), 4),
                "median_loss": round(statistics.median(loss for loss, _ in losses), 4),
                "worst_loss": round(max(loss for loss, _ in losses), 4),
            }
            for way, losses in ways.items()
            if losses
        },
    }


def all_cases(tasks: dict[str, list[Point]], per_doubling: int = 1) -> list[Case]:
    """Every task on every curve."""
    return [
        replay(task, points, curve, knee)
        for task, points in tasks.items()
        for curve in CURVES
        for knee in knees(points, per_doubling)
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


def with_known(tasks: dict[str, list[Point]], *, but_best: bool = False, per_doubling: int = 1) -> list[Case]:
    """Every case with the noise scale that the points of its task show: all of them, or all but the best."""
    cases = []
    for case in all_cases(tasks, per_doubling):
        points = tasks[case.task]
        seen = [point for point in points if not (but_best and point.batch == case.best)]
        cases.append(replay(case.task, points, case.curve, case.knee, noise=shown(seen)))
    return cases


def with_errors(tasks: dict[str, list[Point]], relative: float) -> dict[str, Any]:
    """How close to the best the choice is with noise scales that are wrong by as much as their intervals say.

    Args:
        tasks: Points by task.
        relative: Half of the interval of the noise scale, at ``LEVEL``.

    Returns:
        By the estimate of goodput and by its lower quartile: share of choices that are close, mean loss.
    """
    half = math.log1p(relative)
    losses: dict[str, list[float]] = {"estimate": [], "lower_quartile": []}
    for points in tasks.values():
        true = shown(points).estimate
        for index in range(DRAWN):
            z = NormalDist().inv_cdf((index + 0.5) / DRAWN) / NormalDist().inv_cdf(0.5 + LEVEL / 2)
            noise = NoiseScale(*(true * math.exp(half * (z + end)) for end in (0, -1, 1)), LEVEL)
            for curve in CURVES.values():
                for knee in knees(points):
                    time = {point.batch: point.needs / curve(point.batch, knee) for point in points}
                    for rule, batch in _chosen(points, lambda b, c=curve, k=knee: c(b, k), noise).items():
                        losses[rule].append(time[batch] / min(time.values()) - 1)
    return {
        rule: {
            "close": round(statistics.fmean(loss <= CLOSE for loss in told), 4),
            "mean_loss": round(statistics.fmean(told), 4),
        }
        for rule, told in losses.items()
    }


def _chosen(points: Sequence[Point], speed: Callable[[int], float], noise: NoiseScale) -> dict[str, int]:
    """The batch size with the largest goodput by either rule, where any gains."""
    present = points[0].batch
    gaining = preferred([rate(each, present, noise) for each in _candidates(points, speed)])
    if not gaining:
        return {"estimate": present, "lower_quartile": present}
    cautious = max(gaining, key=lambda each: (each.lower_quartile, -each.batch))
    return {"estimate": gaining[0].batch, "lower_quartile": cautious.batch}


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
    known, cases, others = with_known(tasks), all_cases(tasks), other_fits(tasks)
    fits = {}
    for task, points in tasks.items():
        pair = fitted_pair(points)
        noise = fit(*pair)
        fits[task] = {
            "from": [point.batch for point in pair],
            "noise_scale": None if noise is None else _rounded(noise),
            "of_all": _rounded(shown(points)),
        }
    return {
        "aim": AIM,
        "close": CLOSE,
        "of_the_task": _split(known),
        "of_the_task_dense": _split(with_known(tasks, per_doubling=DENSE)),
        "but_for_the_best": _split(with_known(tasks, but_best=True)),
        "of_two_batch_sizes": _split(cases),
        "of_two_batch_sizes_held_out": _split([case for case in cases if case.held_out]),
        "of_other_pairs": _split(others),
        "by_task": {task: summary([case for case in known if case.task == task]) for task in tasks},
        "with_errors": {f"{error:g}": with_errors(tasks, error) for error in ERRORS},
        "in_hindsight": in_hindsight(tasks),
        "fits": fits,
        "rows": [asdict(case) for case in known],
    }


def _split(cases: Sequence[Case]) -> dict[str, Any]:
    """The summary of all, and of each curve."""
    return {
        "all": summary(cases),
        **{curve: summary([case for case in cases if case.curve == curve]) for curve in CURVES},
    }


def _rounded(noise: NoiseScale) -> dict[str, float]:
    return {name: round(value, 2) for name, value in asdict(noise).items()}


def main() -> None:
    """Replay, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = results(read_points())
    options.out.write_text(json.dumps({"conditions": conditions(), **found}, indent=1) + "\n")
    print(
        f"within {CLOSE:.0%} of the best time to the target (not farther for sure, as the points have "
        f"errors), and median loss; aim {AIM:.0%} by goodput"
    )
    for name in SOURCES:
        for curve, told in found[name].items():
            _say(f"noise scale {name.replace('_', ' ')}, {curve}", told)
    for task, told in found["by_task"].items():
        _say(task, told)
    for error, rules in found["with_errors"].items():
        told = ", ".join(
            f"by {rule.replace('_', ' ')} {of['close']:.0%}, mean loss {of['mean_loss']:.2%}"
            for rule, of in rules.items()
        )
        print(f"noise scale of the task give or take {float(error):.0%}: {told}")
    told = ", ".join(f"{name} {share:.0%}" for name, share in found["in_hindsight"].items())
    print(f"goodput with the noise scale chosen in hindsight: {told}")


def _say(name: str, told: dict[str, Any]) -> None:
    ways = ", ".join(
        f"{way} {of['close']:.0%} ({of['not_surely_farther']:.0%}) {of['median_loss']:.1%}"
        for way, of in told.items()
        if way != "cases"
    )
    print(f"{name}: {told['cases']} cases, {ways}")


if __name__ == "__main__":
    main()
