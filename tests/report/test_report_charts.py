"""The charts of a report: what they draw, what they leave out, and that their tables hold the numbers."""

import math
import re
from statistics import fmean
from typing import Any

import pytest
from report_pages import a_full_result, of_many_trials
from result_builder import NOW, a_rate, a_ratio, a_result, a_trial, an_interval, many_trials

from advisor.report.bottleneck import moved
from advisor.report.charts.charts import MOST_CROSSES, progress
from advisor.report.charts.share_chart import limits_part
from advisor.report.charts.tradeoff_chart import front_of, points_of, tradeoff
from advisor.report.effects import FEWEST_TRIALS, importance, measured_trials, slices
from advisor.report.pages.effects_page import ASSOCIATION, effects
from advisor.result.document import Interval, ProfileSummary, ResultData, Trial


def of_trials(*trials: Trial) -> ResultData:
    return a_result(trials=[a_result().trials[0], *trials])


def a_point(number: int, mib: float, rate: float, **fields: Any) -> Trial:
    return a_trial(
        number, throughput=a_rate(rate), peak_bytes=int(mib * 2**20), step_ms=an_interval(9), **fields
    )


def test_the_front_holds_what_no_other_beats_in_both() -> None:
    result = of_trials(
        a_point(1, 500, 1000), a_point(2, 600, 900), a_point(3, 700, 2000), a_point(4, 700, 1500),
        a_point(5, 800, 2000),
    )  # fmt: skip
    points = points_of(result)
    assert [point.trial.number for point in points] == [1, 2, 3, 4, 5, 0]
    assert [point.trial.number for point in front_of(points)] == [1, 3]


def test_trials_whose_memory_is_not_their_own_are_no_points() -> None:
    result = of_trials(
        a_point(1, 500, 1000, process="shared"), a_point(2, 600, 900, state="failed", cause="timeout"),
        a_point(3, 700, 2000),
    )  # fmt: skip
    assert [point.trial.number for point in points_of(result)] == [3, 0]
    found = tradeoff("x", result)
    assert found is not None and "shared a process and its peak memory: 1" in found.note


def test_the_trade_off_marks_now_and_the_confirmed_change() -> None:
    found = tradeoff("x", a_full_result())
    assert found is not None
    assert {">now<", ">changed<"} <= set(re.findall(r">\w+<", str(found.chart.svg)))
    assert (
        "10",
        "num_workers=2, amp=bf16",
        "1010",
        "3483 samples/s (3414 to 3553)",
        "",
    ) in found.chart.rows


def test_one_point_makes_no_trade_off() -> None:
    assert tradeoff("x", of_trials()) is None


def test_a_slice_holds_the_ratios_under_each_value_of_a_knob() -> None:
    found = slices(a_result())
    workers = {spread.value: [ratio.estimate for ratio in spread.ratios] for spread in found["num_workers"]}
    assert workers[2] == [1.69, 1.74, 2.09, 2.18] and workers[1] == [1.31]
    assert [spread.value for spread in found["num_workers"] if spread.present] == [0]
    assert "prefetch_factor" not in found  # it never had another value


def test_importance_is_shown_from_thirty_completed_trials_on_and_called_an_association() -> None:
    exactly = [a_trial(n, a_ratio(1 + n / 100, 1, 2), config=NOW | {"amp": "bf16" if n % 2 else "off"})
               for n in range(1, FEWEST_TRIALS + 1)]  # fmt: skip
    fewer, enough = (effects(of_trials(*trials)) for trials in (exactly[:-1], exactly))
    assert fewer is not None and enough is not None
    assert fewer.importance == [] and "there are 29" in fewer.few
    assert [name for name, _ in enough.importance] == ["amp"] and enough.few == ""
    assert "association" in ASSOCIATION


def test_a_knob_that_decides_has_nearly_all_the_importance_and_one_that_does_nothing_has_none() -> None:
    trials = [
        a_trial(n, a_ratio((2.0 if n % 2 else 1.0) + 0.01 * math.sin(n), 0.5, 3), config=NOW | {
            "amp": "bf16" if n % 2 else "off", "num_workers": n // 2 % 3})
        for n in range(1, 61)
    ]  # fmt: skip
    shares = importance(of_trials(*trials))
    assert shares["amp"] > 0.98
    assert shares["num_workers"] == 0
    assert next(iter(shares)) == "amp"


def test_importance_is_epsilon_squared_of_the_logarithms() -> None:
    result = of_many_trials(200)
    groups: dict[object, list[float]] = {}
    for trial in measured_trials(result.trials):
        groups.setdefault(trial.config["batch_size"], []).append(math.log(trial.ratio.estimate))
    every = [value for group in groups.values() for value in group]
    whole = sum((value - fmean(every)) ** 2 for value in every)
    inside = sum((value - fmean(group)) ** 2 for group in groups.values() for value in group)
    spare = len(every) - len(groups)
    expected = (whole - inside - (len(groups) - 1) * inside / spare) / whole
    assert importance(result)["batch_size"] == pytest.approx(max(0.0, expected))


def test_the_timeline_names_the_cause_of_each_failure_and_follows_the_best() -> None:
    chart = progress("p", a_result().trials, 0.02)
    assert "<title>trial 7: compile_failed</title>" in str(chart.svg)
    assert ("8", "screen", "", "", "", "oom_host") in chart.rows
    assert "2 failed trials (compile_failed 1, oom_host 1)" in str(chart.svg)


def test_the_timeline_of_very_many_failures_has_one_shape_for_each_cause() -> None:
    trials = [a_trial(0), *(a_trial(n, state="failed", cause="timeout") for n in range(1, MOST_CROSSES + 2))]
    assert str(progress("p", trials, 0.02).svg).count("<title>timeout</title>") == 1
    assert "<title>timeout" not in str(progress("p", many_trials(20), 0.02).svg)


def test_memory_is_drawn_by_category_with_its_peak_and_limits_as_shares() -> None:
    part = limits_part(a_full_result().profile)
    assert part is not None and part.memory is not None and part.reached is not None
    assert list(part.memory.rows) == [
        ("peak of the process", "913 MiB"), ("activation", "410 MiB"), ("parameter", "44.0 MiB")
    ]  # fmt: skip
    assert list(part.reached.rows) == [("arithmetic", "31 %"), ("memory traffic", "12 %")]
    assert part.said == [
        "The largest category of memory is activation: 410 MiB.",
        "While it computes, a step reaches 31 % of the limit of arithmetic and 12 % of the limit of memory "
        "traffic.",
    ]


def test_without_measured_memory_or_limits_there_is_no_such_part() -> None:
    assert limits_part(ProfileSummary(phases_ms={})) is None


def test_where_the_bottleneck_moved_is_said_with_both_profiles() -> None:
    found = moved(a_full_result().profile)
    assert found is not None
    assert found.said == (
        "Before, the largest part is input wait: 42 % of the step (16.2 of 38.4 ms). After, it is backward: "
        "56 % of the step (10.2 of 18.2 ms); input wait takes 2.2 % of the step (0.400 of 18.2 ms) there."
    )
    assert found.replays == [
        ("one cached batch in place of the loader", "41 % of the step goes (38 % to 44 %)",
         "2.0 % of the step goes (0 % to 4.0 %)"),
    ]  # fmt: skip


def test_a_bottleneck_that_stays_is_said_too_and_without_a_second_profile_nothing_is() -> None:
    summary = ProfileSummary(
        phases_ms={"forward": 3.0, "other": 1.0}, phases_after_ms={"forward": 1.5, "other": 1.0}
    )
    found = moved(summary)
    assert found is not None and found.said.startswith("The largest part is the same: forward takes 75 %")
    assert moved(ProfileSummary(phases_ms={"forward": 3.0})) is None


@pytest.mark.parametrize(
    ("gain", "doubted"), [((1.5, 1.4, 1.6), False), ((4.0, 3.0, 5.0), True), (None, False)]
)
def test_profiles_that_do_not_show_half_of_the_gain_say_so(
    gain: tuple[float, float, float] | None, doubted: bool
) -> None:
    summary = ProfileSummary(
        phases_ms={"forward": 3.0, "other": 1.0}, phases_after_ms={"forward": 1.5, "other": 1.0}
    )
    confirmed = None if gain is None else Interval(estimate=gain[0], low=gain[1], high=gain[2])
    found = moved(summary, confirmed)
    assert found is not None
    assert ("do not show half of the gain" in found.doubt) is doubted


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ({"host_peak": 900, "other": 500, "parameter": 400}, "Most of the memory is not the model's"),
        ({"host_peak": 900, "parameter": 40}, "Most of the memory is not the model's"),
        ({"host_peak": 900, "other": 400, "parameter": 300}, "The largest category of memory is other"),
    ],
)
def test_memory_that_the_model_does_not_hold_is_not_called_a_category_of_it(
    memory: dict[str, int], said: str
) -> None:
    sizes = {name: mib * 2**20 for name, mib in memory.items()}
    found = limits_part(ProfileSummary(phases_ms={}, memory_bytes=sizes))
    assert found is not None and found.said[0].startswith(said)
