import pytest
from builders import a_machine, a_profile

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import CompileFacts
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.rules.compile_unrecovered import CompileUnrecovered


def a_compiled_run(
    eager_step_ms: float | None, steps_total: int | None, *, seconds: float = 40.0, seen: int = 30
) -> Profile:
    return a_profile(
        phases_ms={"forward": 9.0},
        compile=CompileFacts(frames=1, compiled=1, seconds=seconds, eager_step_ms=eager_step_ms),
        run=RunFacts(steps_total=steps_total, steps_seen=seen),
    )


def test_a_run_too_short_to_earn_compiling_back_is_reported_by_its_share_of_the_run() -> None:
    finding = CompileUnrecovered().check(a_compiled_run(12.0, 6_000))  # saves 2 ms of 12, 6000 times
    assert finding.severity is Severity.HIGH
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.4)
    assert finding.ceiling.of == "run"
    assert finding.title == "40 s of compiling save 12 s in the planned 6,000 steps"
    assert finding.evidence["steps_to_recover"] == 20_000
    assert "TORCHINDUCTOR_CACHE_DIR" in finding.advice


def test_a_run_that_is_just_long_enough_passes() -> None:
    assert CompileUnrecovered().check(a_compiled_run(12.0, 20_000)).state is State.PASSED


def test_graphs_that_save_nothing_are_never_recovered() -> None:
    finding = CompileUnrecovered().check(a_compiled_run(9.0, 6_000))
    assert finding.state is State.OPPORTUNITY
    assert "save 0 s in the planned" in finding.title


def test_without_a_planned_length_seconds_are_told_without_weight() -> None:
    finding = CompileUnrecovered().check(a_compiled_run(12.0, None))
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.LOW)
    assert finding.title == "40 s of compiling: 20,000 steps recover it"


def test_steps_already_taken_can_have_recovered_it() -> None:
    assert CompileUnrecovered().check(a_compiled_run(12.0, None, seen=20_000)).state is State.PASSED


def test_a_length_that_is_not_known_and_no_gain_say_so() -> None:
    finding = CompileUnrecovered().check(a_compiled_run(10.0, None))
    assert finding.title == "40 s of compiling: no step is faster for it"


def test_a_compilation_found_in_a_cache_passes() -> None:
    assert CompileUnrecovered().check(a_compiled_run(12.0, 10, seconds=0.0)).state is State.PASSED


@pytest.mark.parametrize(
    "profile",
    [
        Profile(a_machine()),
        a_profile(compile=CompileFacts(frames=1, seconds=4.0, eager_step_ms=3.0)),
        a_compiled_run(None, 6_000),
    ],
    ids=["nothing compiled", "no steps", "no replay"],
)
def test_without_the_facts_nothing_is_said(profile: Profile) -> None:
    assert CompileUnrecovered().check(profile).state is State.NOT_APPLICABLE
