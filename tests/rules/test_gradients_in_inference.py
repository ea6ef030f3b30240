import pytest
from builders import a_profile

from advisor.advice.finding import Finding, State
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.gradients_in_inference import GradientsInInference


def check(mode: str | None) -> Finding:
    return GradientsInInference().check(a_profile(run=RunFacts(requests_mode=mode)))


def test_requests_with_gradients_are_told_with_the_knob_that_tests_the_advice() -> None:
    finding = check("grad")
    assert (finding.state, finding.knobs) == (State.DIAGNOSTIC, ("inference_mode",))
    assert "`with torch.inference_mode():`" in finding.advice


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_requests_without_gradients_are_right(mode: str) -> None:
    finding = check(mode)
    assert finding.state is State.PASSED and f"torch.{mode}()" in finding.title


def test_a_training_is_not_judged() -> None:
    assert check(None).state is State.NOT_APPLICABLE
