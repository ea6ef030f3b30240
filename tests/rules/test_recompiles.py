from typing import Any

import pytest
from builders import a_machine, a_profile

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import CompileFacts
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.rules.recompiles import Recompiles, seconds

SIZES = "0/0: tensor 'x' size mismatch at index 0. expected 8, actual 7"
VALUE = "3/0: k.n == 1.5        # def h(x,k): return (x*k.n).sum()\nUser stack trace: ..."


def recompiled(count: int, spent_s: float, reason: str = SIZES) -> CompileFacts:
    return CompileFacts(
        frames=4,
        compiled=4,
        recompiles_after_warmup=count,
        recompile_seconds=spent_s,
        recompile_reasons=(reason,),
    )


def a_run_of(compiled: CompileFacts, **run: Any) -> Profile:
    return a_profile(phases_ms={"forward": 9.0}, compile=compiled, run=RunFacts(**run))


def test_repeated_recompilation_costs_its_share_of_the_time_watched() -> None:
    finding = Recompiles().check(a_run_of(recompiled(5, 30.0), wall_s=100.0))
    assert finding.severity is Severity.HIGH
    assert finding.ceiling is not None and (finding.ceiling.share, finding.ceiling.of) == (0.3, "run")
    assert (
        finding.title
        == "30 % of the time since the first step recompiles: 30 s in 5 recompilations after warm-up"
    )
    assert "mark_dynamic(batch, 0)" in finding.advice


def test_a_value_compiled_in_as_a_constant_is_named() -> None:
    finding = Recompiles().check(a_run_of(recompiled(5, 30.0, VALUE), wall_s=100.0))
    assert "`k.n == 1.5`" in finding.advice and "buffer" in finding.advice
    assert finding.knobs == ()


def test_a_single_one_is_paid_once_in_the_planned_run() -> None:
    finding = Recompiles().check(a_run_of(recompiled(1, 30.0), wall_s=100.0, steps_total=1_000_000))
    assert finding.state is State.PASSED


def test_a_single_one_in_a_run_of_unknown_length_is_low() -> None:
    finding = Recompiles().check(a_run_of(recompiled(1, 30.0), wall_s=100.0))
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.LOW)
    assert finding.title == "30 s in 1 recompilation after warm-up"


def test_without_the_time_watched_the_seconds_are_told() -> None:
    finding = Recompiles().check(a_profile(compile=recompiled(3, 4.2)))
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.MEDIUM)
    assert finding.title.startswith("4.2 s in 3 recompilations")


def test_recompilation_within_two_percent_passes() -> None:
    assert Recompiles().check(a_run_of(recompiled(3, 1.0), wall_s=100.0)).state is State.PASSED


def test_none_after_warm_up_passes() -> None:
    assert Recompiles().check(a_profile(compile=CompileFacts(frames=2, compiled=2))).state is State.PASSED


@pytest.mark.parametrize("profile", [Profile(a_machine()), a_profile(compile=CompileFacts())])
def test_a_program_that_compiles_nothing_is_not_judged(profile: Profile) -> None:
    assert Recompiles().check(profile).state is State.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("value", "said"), [(0.042, "0.042 s"), (4.23, "4.2 s"), (9.97, "10 s"), (1234.5, "1,234 s")]
)
def test_seconds_are_written_out(value: float, said: str) -> None:
    assert seconds(value) == said
