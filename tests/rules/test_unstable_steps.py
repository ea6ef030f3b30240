from typing import Any

import pytest
from builders import a_device, a_profile, a_window
from growing_profiles import a_growing_profile, read

from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.observed import StepSeries
from advisor.rules.unstable_steps import UnstableSteps

STEADY = StepSeries(steps=200, median_ms=10.0, mean_ms=10.1, p5_ms=9.8, p95_ms=10.6, outliers=2)


def check(mean_ms: float, outliers: int, **facts: Any) -> Finding:
    series = {"steps": 200, "median_ms": 10.0, "p5_ms": 9.0, "p95_ms": 12.0, **facts}
    steps = StepSeries(mean_ms=mean_ms, outliers=outliers, **series)
    return UnstableSteps().check(a_profile(series=steps))


def test_steady_steps_pass_with_their_number() -> None:
    finding = UnstableSteps().check(a_profile(series=STEADY))
    assert finding.state is State.PASSED
    assert finding.title == "2 of 200 steps are far slower than the median"


def test_many_slow_steps_are_a_small_risk_while_the_mean_stays_near_the_median() -> None:
    finding = check(11.9, 20)
    assert (finding.state, finding.severity, finding.kind) == (State.OPPORTUNITY, Severity.LOW, Kind.RISK)
    assert finding.title.startswith("16 % of the time goes to slow steps: 20 of 200 are far slower")


def test_a_mean_a_fifth_above_the_median_is_more() -> None:
    finding = check(12.1, 20)
    assert finding.severity is Severity.MEDIUM
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(1 - 10 / 12.1)


def test_ten_slow_steps_are_within_the_limit() -> None:
    assert check(12.1, 10).state is State.PASSED


def test_a_slow_end_counts_although_its_steps_are_no_outliers() -> None:
    assert check(12.5, 0, p95_ms=15.0).severity is Severity.MEDIUM


def test_slow_steps_that_cost_nothing_pass() -> None:
    assert check(10.2, 40).state is State.PASSED


def test_what_the_slow_steps_have_in_common_is_the_advice() -> None:
    finding = check(12.1, 20, outlier_flags=(("shape", 3), ("gc", 15)))
    assert finding.advice == "15 slow steps come with `gc`: call `gc.freeze()` after the first steps."


def test_a_device_that_swings_between_busy_and_idle_counts() -> None:
    series = StepSeries(steps=200, median_ms=10.0, mean_ms=11.0, p5_ms=9.0, p95_ms=12.0)
    window = a_window(device=a_device(busy_p95=0.9, busy_p5=0.05))
    finding = UnstableSteps().check(a_profile(series=series, window=window, device="cuda:0"))
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.LOW)


def test_too_few_steps_say_nothing() -> None:
    assert check(20.0, 3, steps=9, p95_ms=40.0).state is State.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("short", "state"), [(20, State.PASSED), (80, State.OPPORTUNITY), (100, State.OPPORTUNITY)]
)
def test_steps_that_have_more_samples_may_take_longer(short: int, state: State) -> None:
    """One in four is of a long game."""
    took = read("step", lambda step: 20.0 if step % 4 == 0 else 4.0)
    samples = read("samples", lambda step: 100 if step % 4 == 0 else short)
    series = StepSeries(steps=200, median_ms=4.0, mean_ms=8.0, p5_ms=4.0, p95_ms=20.0, outliers=50)
    profile = a_growing_profile(took, samples, series=series)
    assert UnstableSteps().check(profile).state is state
