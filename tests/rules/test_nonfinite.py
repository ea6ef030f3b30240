from typing import Any

from builders import a_gpu_profile, a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.nonfinite import Nonfinite


def check(**run: Any) -> Finding:
    return Nonfinite().check(a_profile(run=RunFacts(**run)))


def test_a_loss_that_is_nan_is_reported_with_its_step_and_module() -> None:
    finding = check(nonfinite="loss", nonfinite_step=12, nonfinite_module="head")
    assert finding.title == "1 loss or more is NaN or infinite, the first at step 12, in `head`"
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.HIGH)
    assert "clip_grad_norm_" in finding.advice
    assert finding.knobs == ()


def test_step_and_module_are_left_out_where_they_are_not_known() -> None:
    assert check(nonfinite="gradient").title == "1 gradient or more is NaN or infinite"


def test_float16_on_a_gpu_is_to_give_way_to_bfloat16() -> None:
    run = RunFacts(nonfinite="loss", own_autocast=True)
    finding = Nonfinite().check(a_gpu_profile(run=run))
    assert "torch.bfloat16" in finding.advice
    assert finding.knobs == ("amp",)
    assert "torch.bfloat16" not in Nonfinite().check(a_profile(run=run)).advice


def test_infinite_gradients_under_a_scaler_are_how_it_works() -> None:
    assert check(nonfinite="gradient", own_scaler=True).state is State.NOT_APPLICABLE
    assert check(nonfinite="loss", own_scaler=True).fired


def test_steps_that_were_looked_at_pass_with_their_number() -> None:
    finding = check(finite_checks=30)
    assert finding.state is State.PASSED
    assert finding.title == "0 of 30 steps had a NaN or an infinity"


def test_missing_facts_are_named() -> None:
    assert check().title == "values of losses and gradients: no step was looked at"
