from dataclasses import replace

import pytest
from builders import a_machine, a_profile

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import CompileFacts, Location
from advisor.profiles.facts.profile import Profile
from advisor.rules.compile_fell_back import CompileFellBack

COMPILED = CompileFacts(frames=4, compiled=4, graphs=4, seconds=20.0)


def test_a_model_that_compiles_passes() -> None:
    finding = CompileFellBack().check(a_profile(compile=COMPILED))
    assert (finding.state, finding.title) == (State.PASSED, "4 of 4 frames compiled")


def test_no_graph_at_all_is_high_even_where_it_failed_too() -> None:
    lost = replace(COMPILED, compiled=0, graphs=0, failures=("Unsupported: Attempted to wrap RNN",))
    finding = CompileFellBack().check(a_profile(compile=lost))
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.HIGH)
    assert finding.title.startswith("0 graphs were made of 4 frames")
    assert finding.knobs == ("compile_region", "execution")


def test_a_frame_that_failed_is_named_with_its_reason() -> None:
    lost = replace(COMPILED, compiled=3, failures=("BackendCompilerFailed: no compiler\nmore",))
    finding = CompileFellBack().check(a_profile(compile=lost))
    assert finding.severity is Severity.HIGH
    assert finding.title == "1 of 4 frames failed to compile: BackendCompilerFailed: no compiler"


def test_the_recompile_limit_asks_for_dynamic_sizes() -> None:
    finding = CompileFellBack().check(a_profile(compile=replace(COMPILED, limit_reached=True)))
    assert finding.severity is Severity.HIGH
    assert "dynamic=True" in finding.advice and "dynamic" in finding.knobs


def test_where_no_size_changes_the_guard_that_failed_is_named_and_nothing_said_of_sizes() -> None:
    counted = replace(
        COMPILED,
        limit_reached=True,
        recompile_reasons=("0/3: fn._modules['2'].count == 3  # self.count += 1  # train.py:24 in forward",),
        recompile_location=Location("/home/me/train.py", 24, "forward"),
    )
    finding = CompileFellBack().check(a_profile(compile=counted))
    assert finding.location == counted.recompile_location
    assert "`fn._modules['2'].count` at /home/me/train.py:24 in a buffer" in finding.advice
    assert "dynamic" not in finding.advice and finding.knobs == ()


def test_skipped_cuda_graphs_are_medium() -> None:
    skipped = replace(COMPILED, cudagraphs_skipped="skipping cudagraphs due to cpu device\nmore")
    finding = CompileFellBack().check(a_profile(compile=skipped))
    assert (finding.severity, finding.knobs) == (Severity.MEDIUM, ("execution",))
    assert finding.title.endswith("skipping cudagraphs due to cpu device")


def test_the_uncompiled_step_is_shown_beside_the_compiled_one() -> None:
    lost = replace(COMPILED, limit_reached=True, eager_step_ms=11.0)
    finding = CompileFellBack().check(a_profile(phases_ms={"forward": 9.0}, compile=lost))
    assert (finding.evidence["eager_step_ms"], finding.evidence["step_ms"]) == (11.0, 10.0)


@pytest.mark.parametrize("profile", [Profile(a_machine()), a_profile(compile=CompileFacts())])
def test_a_program_that_compiles_nothing_is_not_judged(profile: Profile) -> None:
    assert CompileFellBack().check(profile).state is State.NOT_APPLICABLE
