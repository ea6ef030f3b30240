"""Where the gain is one of memory, nothing that is told of time comes of it."""

from typing import Any

import pytest
from confirmation_builder import SAVED, confirmed, some_settings, told
from result_builder import a_ratio, a_recommendation, a_result

from advisor.report.noise import disturbances
from advisor.result import wording
from advisor.tuners.comparing.looks import MIN_INSTANCES

SETTINGS = some_settings("memory", steps_planned=1000, price_per_hour=36.0)


def test_the_steps_of_the_windows_say_what_saved_memory_costs_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, run = told(confirmed(monkeypatch, SETTINGS, 0.125), SETTINGS)
    assert found.verdict == "change" and found.speedup.estimate == pytest.approx(SAVED)
    assert found.time_ratio is not None and found.time_ratio.estimate == pytest.approx(0.8)
    assert found.time_ratio.instances == MIN_INSTANCES and found.break_even_steps is None
    assert run is not None and run.changed_seconds is not None and run.changed_cost is not None
    assert run.changed_seconds.estimate == pytest.approx(125 + 30)
    assert run.changed_cost == pytest.approx(1.55)


def test_compiling_breaks_even_by_the_time_that_it_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = told(confirmed(monkeypatch, SETTINGS, 0.05), SETTINGS)
    assert found.break_even_steps == 600


def test_saved_memory_need_not_be_paid_back_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert confirmed(monkeypatch, some_settings("memory", steps_planned=599), 0.05).verdict == "change"
    by_time = confirmed(monkeypatch, some_settings("throughput", steps_planned=599), 0.05)
    assert by_time.verdict == "keep" and by_time.reason.startswith(wording.UNPAID)
    assert by_time.time is None and by_time.step_ratio == pytest.approx(2.0)


def test_where_the_time_was_not_measured_nothing_is_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = confirmed(monkeypatch, SETTINGS, 0.05)
    outcome.time = outcome.step_ratio = None
    found, run = told(outcome, SETTINGS)
    assert found.verdict == "change" and found.time_ratio is None and found.break_even_steps is None
    assert run is not None and run.seconds == pytest.approx(100.0) and run.changed_seconds is None


def test_clocks_are_compared_with_each_other_and_not_with_memory() -> None:
    of_memory = {"speedup": a_ratio(1.5, 1.4, 1.6), "cpu_speedup": a_ratio(0.9, 0.89, 0.91)}

    def disagree(**known: Any) -> bool:
        found = a_recommendation(**of_memory, **known)
        said = disturbances(a_result(objective="memory", recommendation=found))
        return any("clocks disagree" in text for text in said)

    assert not disagree() and not disagree(time_ratio=a_ratio(0.9, 0.88, 0.92))
    assert disagree(time_ratio=a_ratio(1.1, 1.05, 1.15))


def test_the_verdict_says_what_saved_memory_costs_in_time() -> None:
    def verdict(estimate: float, low: float, high: float) -> str:
        by_clock = a_ratio(estimate, low, high)
        found = a_recommendation(speedup=a_ratio(1.5, 1.4, 1.6), time_ratio=by_clock)
        return wording.verdict(a_result(objective="memory", recommendation=found))

    assert ", throughput 0.90x (0.88 to 0.92), peak memory" in verdict(0.9, 0.88, 0.92)
    assert ", no clear difference in throughput (0.98 to 1.03), peak memory" in verdict(1.0, 0.98, 1.03)
