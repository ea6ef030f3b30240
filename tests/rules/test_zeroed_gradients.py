from typing import Any

import pytest
from builders import a_gpu_profile, a_machine, a_profile, a_window, an_optimizer

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import OptimizerFacts, Profile, StepPhases
from advisor.rules.zeroed_gradients import ZeroedGradients


def clearing(*optimizers: OptimizerFacts, **facts: Any) -> Profile:
    return a_profile(phases_ms={"backward": 4.0}, optimizers=optimizers, **facts)


def zeroing(ms: float | None) -> OptimizerFacts:
    return an_optimizer(zeroes_gradients=True, zero_grad_ms=ms, location=Location("train.py", 7))


def test_writing_zeros_costs_what_was_measured() -> None:
    finding = ZeroedGradients().check(clearing(zeroing(1.5)))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.6)
    assert (finding.ceiling.source, finding.severity) == ("model", Severity.MEDIUM)
    assert (finding.kind, finding.knobs) == (Kind.WASTE, ("set_to_none",))
    assert finding.title == "15 % of each step writes zeros into gradients"
    assert "set_to_none=True" in finding.advice and finding.location == Location("train.py", 7)


def test_half_a_percent_of_the_step_passes() -> None:
    assert ZeroedGradients().check(clearing(zeroing(0.05))).state is State.PASSED


def test_times_of_several_optimizers_are_summed_but_not_of_those_that_set_to_none() -> None:
    other = an_optimizer(zeroes_gradients=False, zero_grad_ms=5.0)
    finding = ZeroedGradients().check(clearing(zeroing(1.0), zeroing(1.0), other))
    assert finding.evidence["zero_ms"] == 2.0


def test_setting_to_none_passes() -> None:
    assert ZeroedGradients().check(clearing(an_optimizer(zeroes_gradients=False))).state is State.PASSED


@pytest.mark.parametrize(("residual", "state"), [(0.0, State.OPPORTUNITY), (0.2, State.NOT_APPLICABLE)])
def test_on_a_gpu_kernels_are_counted_if_the_window_is_clear_enough(residual: float, state: State) -> None:
    profile = a_gpu_profile(
        phases=StepPhases(step_ms=10.0, steps=20),
        optimizers=(zeroing(0.01),),
        window=a_window(zero_ms=2.0, residual=residual),
    )
    assert ZeroedGradients().check(profile).state is state


@pytest.mark.parametrize(
    "profile",
    [
        Profile(a_machine()),
        clearing(),
        clearing(an_optimizer()),
        clearing(zeroing(None)),
    ],
    ids=["no steps", "no optimizer", "not seen", "no time"],
)
def test_without_the_facts_nothing_is_said(profile: Profile) -> None:
    assert ZeroedGradients().check(profile).state is State.NOT_APPLICABLE
