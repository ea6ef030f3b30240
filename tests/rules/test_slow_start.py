import pytest
from builders import a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.slow_start import SlowStart


def check(startup_s: float | None, steps: int | None = None) -> Finding:
    run = RunFacts(startup_s=startup_s, steps_total=steps)
    return SlowStart().check(a_profile(phases_ms={"forward": 10.0}, run=run))


def test_a_start_that_is_a_part_of_the_planned_run_is_reported() -> None:
    finding = check(100.0, 30_000)  # 300 s of steps
    assert finding.title == "25 % of the planned run comes before the first step (100 s)"
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.HIGH)
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.25)
    assert finding.ceiling.of == "run"
    assert "TORCHINDUCTOR_CACHE_DIR" in finding.advice


def test_a_small_part_of_the_planned_run_passes() -> None:
    assert check(100.0, 100_000).state is State.PASSED


def test_a_short_program_is_not_blamed_for_importing_torch() -> None:
    finding = check(8.0, 100)
    assert (finding.state, finding.title) == (State.PASSED, "8 s before the first step")


def test_without_a_planned_length_the_seconds_are_told() -> None:
    finding = check(100.0)
    assert finding.state is State.NOT_APPLICABLE
    assert "100 s before the first step" in finding.title and "--steps-planned" in finding.title


def test_twenty_minutes_are_told_whatever_the_length() -> None:
    finding = check(1500.0)
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.MEDIUM)


def test_without_the_time_of_the_start_nothing_is_said() -> None:
    assert check(None).state is State.NOT_APPLICABLE
