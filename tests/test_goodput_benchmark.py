"""The arithmetic of benchmarks/goodput.py, on tasks whose best batch can be computed by hand."""

import importlib.util
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
NOISE = 1000.0


@pytest.fixture
def goodput(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("goodput_benchmark", BENCHMARKS / "goodput.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def a_task(goodput: Any, *batches: int, error: float = 0.001) -> list[Any]:
    """Needs that grow with the batch exactly as a noise scale of ``NOISE`` says."""
    return [goodput.Point(batch, NOISE + batch, error) for batch in batches]


def test_the_published_points_are_read_in_order(goodput: Any) -> None:
    tasks = goodput.read_points()
    assert len(tasks) == 7
    for points in tasks.values():
        batches = [point.batch for point in points]
        assert len(batches) > 2 and batches == sorted(set(batches))
    assert tasks["BERT"][0] == goodput.Point(256, 2552704.0, pytest.approx(0.01913, rel=1e-3))


def test_two_points_give_the_noise_scale_that_made_them(goodput: Any) -> None:
    small, large = a_task(goodput, 64, 256)
    noise = goodput.fit(small, large)
    assert noise.estimate == pytest.approx(NOISE)
    assert noise.low < NOISE < noise.high


@pytest.mark.parametrize(
    ("needs", "error"), [((1.0, 0.9), 0.01), ((1.0, 1.05), 0.1), ((1.0, 4.5), 0.01), ((1.0, 1.0), 0.0)]
)
def test_needs_that_do_not_grow_clearly_or_grow_too_fast_give_no_noise_scale(
    goodput: Any, needs: tuple[float, float], error: float
) -> None:
    small, large = (goodput.Point(b, need, error) for b, need in zip((64, 256), needs, strict=True))
    assert goodput.fit(small, large) is None


def test_a_fit_sees_the_smallest_batch_and_one_four_times_larger(goodput: Any) -> None:
    assert [p.batch for p in goodput.fitted_pair(a_task(goodput, 64, 128, 300, 1024))] == [64, 300]
    assert [p.batch for p in goodput.fitted_pair(a_task(goodput, 28, 56, 84))] == [28, 84]


def test_a_curve_bends_at_its_knee(goodput: Any) -> None:
    speed = goodput.CURVES["knee"]
    assert [speed(batch, 100) for batch in (50, 100, 200)] == [50, 100, 100]
    gradual = goodput.CURVES["gradual"]
    assert [gradual(batch, 100) for batch in (100, 10**9)] == [50, pytest.approx(100)]


def test_on_a_gradual_curve_the_best_batch_is_the_mean_of_knee_and_noise_scale(goodput: Any) -> None:
    points = a_task(goodput, 10, 40, 100, 320, 1000, 3200, 10000)
    case = goodput.replay("made up", points, "gradual", 100)
    assert case.best == 320  # near the root of 100 * 1000
    assert (case.by_goodput, case.loss_goodput, case.held_out) == (320, 0.0, True)
    assert case.by_throughput == case.by_largest == 10000
    best, largest = (1000 + 320) * 420 / 320, 11000 * 10100 / 10000
    assert case.loss_throughput == pytest.approx(largest / best - 1)


def test_beyond_a_knee_throughput_alone_takes_the_smallest_of_equals(goodput: Any) -> None:
    case = goodput.replay("made up", a_task(goodput, 10, 40, 100, 320, 1000), "knee", 320)
    assert case.best == case.by_throughput == case.by_goodput == 320
    assert case.by_largest == 1000 and case.loss_largest == pytest.approx(2000 / 1320 - 1)


def test_without_a_noise_scale_the_smallest_batch_is_kept(goodput: Any) -> None:
    points = a_task(goodput, 10, 40, 100, 320, error=1.0)
    case = goodput.replay("made up", points, "knee", 320)
    assert case.by_goodput == 10 and case.loss_goodput > 1


def test_the_choice_does_not_depend_on_points_outside_the_fit(goodput: Any) -> None:
    points = a_task(goodput, 10, 40, 100, 320, 1000)
    changed = [*points[:2], *(goodput.Point(p.batch, 7 * p.needs, p.error) for p in points[2:])]
    chosen = [goodput.replay("made up", task, "gradual", 100).by_goodput for task in (points, changed)]
    assert chosen[0] == chosen[1]


def test_a_case_whose_best_batch_was_fitted_from_is_not_held_out(goodput: Any) -> None:
    case = goodput.replay("made up", a_task(goodput, 10, 40, 100, 320), "knee", 10)
    assert case.best == 10 and not case.held_out


def test_knees_reach_from_the_smallest_to_the_largest_batch(goodput: Any) -> None:
    assert goodput.knees(a_task(goodput, 28, 56, 300)) == [28, 56, 112, 224]
    assert goodput.knees(a_task(goodput, 16, 64), per_doubling=2) == [16, 23, 32, 45, 64]


def test_a_summary_counts_cases_close_to_the_best(goodput: Any) -> None:
    points = a_task(goodput, 10, 40, 100, 320, 1000)
    cases = [goodput.replay("made up", points, "gradual", knee) for knee in goodput.knees(points)]
    found = goodput.summary(cases)
    assert found["cases"] == len(cases) == 7
    assert found["goodput"]["close"] == 1.0
    assert found["largest"]["close"] < 1.0 and found["largest"]["median_loss"] > 0.05


@pytest.mark.parametrize(("error", "surely"), [(0.0, True), (0.01, True), (0.3, False)])
def test_a_loss_that_errors_of_the_points_explain_is_not_one_for_sure(
    goodput: Any, error: float, surely: bool
) -> None:
    known = goodput.shown(a_task(goodput, 10, 40, 100, 320, 1000))
    case = goodput.replay("made up", a_task(goodput, 10, 100, 1000, error=error), "knee", 100, noise=known)
    assert (case.best, case.by_largest) == (100, 1000)
    assert case.loss_largest == pytest.approx(2000 / 1100 - 1)
    assert case.least_largest == pytest.approx(2000 / 1100 * math.exp(-1.645 * 2**0.5 * error) - 1, abs=1e-3)
    assert goodput.summary([case])["largest"]["not_surely_farther"] == (0 if surely else 1)
    assert case.least_goodput == case.loss_goodput == 0  # it is the best


def test_every_written_figure_is_a_number(goodput: Any) -> None:
    tasks = {"made up": a_task(goodput, 10, 40, 100, 320)}
    text = json.dumps(goodput.results(tasks), allow_nan=False)
    assert '"fits"' in text


def test_all_points_show_the_noise_scale_that_made_them(goodput: Any) -> None:
    noise = goodput.shown(a_task(goodput, 64, 256, 1024, 4096))
    assert noise.estimate == pytest.approx(NOISE, rel=1e-3)
    assert noise.low == pytest.approx(noise.high, rel=1e-2)  # nothing contradicts it


def test_points_that_follow_no_noise_scale_exactly_leave_an_interval(goodput: Any) -> None:
    exact = a_task(goodput, 64, 256, 1024, 4096)
    needs = [point.needs * (1.1 if index % 2 else 1) for index, point in enumerate(exact)]
    bent = [goodput.Point(point.batch, need, 0.01) for point, need in zip(exact, needs, strict=True)]
    noise = goodput.shown(bent)
    assert noise.low < noise.estimate * 0.8 and noise.high > noise.estimate * 1.2


@pytest.mark.long
def test_errors_of_the_noise_scale_cost_more_the_larger_they_are(goodput: Any) -> None:
    tasks = {"made up": a_task(goodput, *(int(10 * 1.5**step) for step in range(18)))}
    little, much = (goodput.with_errors(tasks, error) for error in (0.01, 2.0))
    for rule in ("estimate", "lower_quartile"):
        assert little[rule]["close"] == 1.0 and little[rule]["mean_loss"] < 0.01
        assert much[rule]["close"] < 1.0 and much[rule]["mean_loss"] > little[rule]["mean_loss"]
    assert much["estimate"]["mean_loss"] < much["lower_quartile"]["mean_loss"]


def test_a_known_noise_scale_decides_where_two_points_show_none(goodput: Any) -> None:
    tasks = {"made up": a_task(goodput, 10, 40, 100, 320, 1000, 3200, error=1.0)}
    assert goodput.summary(goodput.all_cases(tasks))["goodput"]["close"] < 0.5
    assert goodput.summary(goodput.with_known(tasks))["goodput"]["close"] == 1.0


def test_what_is_known_but_for_the_best_does_not_depend_on_what_the_best_needs(goodput: Any) -> None:
    points = a_task(goodput, 10, 40, 100, 320, 1000, 3200)
    easier = [goodput.Point(p.batch, p.needs * (0.5 if p.batch == 320 else 1), p.error) for p in points]
    chosen = [
        [(case.curve, case.knee, case.by_goodput) for case in goodput.with_known({"a": task}, but_best=True)
         if case.best == 320]
        for task in (points, easier)
    ]  # fmt: skip
    assert chosen[0] and set(chosen[0]) <= set(chosen[1])


def test_in_hindsight_a_task_that_follows_a_noise_scale_is_always_decided_well(goodput: Any) -> None:
    exact = a_task(goodput, 64, 256, 1024, 4096)
    assert goodput.in_hindsight({"exact": exact}) == {"all": 1.0, "knee": 1.0, "gradual": 1.0}


def test_no_noise_scale_explains_a_middle_batch_that_needs_less_than_a_smaller_one(goodput: Any) -> None:
    needs = {64: 100.0, 128: 1.0, 256: 100.0}
    dented = [goodput.Point(batch, need, 0.01) for batch, need in needs.items()]
    assert goodput.in_hindsight({"dented": dented})["knee"] < 1
