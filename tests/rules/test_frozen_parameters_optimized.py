import pytest
from builders import a_profile, an_optimizer

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import OptimizerFacts, Profile
from advisor.rules.frozen_parameters_optimized import FrozenParametersOptimized


def given(without: int | None, of: int | None = 1000, name: str = "AdamW") -> OptimizerFacts:
    return an_optimizer(
        name, without_gradient_bytes=without, parameter_bytes=of, location=Location("train.py", 7)
    )


def test_parameters_that_never_learn_are_told_without_claiming_time() -> None:
    finding = FrozenParametersOptimized().check(a_profile(optimizers=(given(640),)))
    assert (finding.state, finding.severity, finding.ceiling) == (State.DIAGNOSTIC, Severity.LOW, None)
    assert finding.title == "64 % of the bytes that AdamW was given never had a gradient"
    assert "if p.requires_grad" in finding.advice
    assert finding.location == Location("train.py", 7)


def test_a_hundredth_is_enough() -> None:
    assert FrozenParametersOptimized().check(a_profile(optimizers=(given(11),))).fired


def test_sizes_are_told_in_mib() -> None:
    finding = FrozenParametersOptimized().check(a_profile(optimizers=(given(2**20, of=2**22),)))
    assert finding.evidence == {"without_gradient_mib": 1.0, "parameter_mib": 4.0}


def test_a_stray_bias_passes() -> None:
    finding = FrozenParametersOptimized().check(a_profile(optimizers=(given(9),)))
    assert (finding.state, finding.title[:5]) == (State.PASSED, "0.9 %")


def test_the_optimizer_with_the_most_of_them_is_named() -> None:
    profile = a_profile(optimizers=(given(10), given(500, name="SGD"), given(None)))
    assert FrozenParametersOptimized().check(profile).title.startswith("50 % of the bytes that SGD")


@pytest.mark.parametrize(
    "profile",
    [
        a_profile(optimizers=(given(None),)),
        a_profile(optimizers=(given(5, of=None),)),
        a_profile(optimizers=(given(0, of=0),)),
    ],
)
def test_without_the_facts_nothing_is_said(profile: Profile) -> None:
    assert FrozenParametersOptimized().check(profile).state is State.NOT_APPLICABLE
