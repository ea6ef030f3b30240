import pytest
from builders import a_served_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.rules.masked_pruning import MaskedPruning


def check(zeros: float | None, masks: int = 0, mask_ms: float = 0.0) -> Finding:
    return MaskedPruning().check(a_served_profile(zeros=zeros, masks=masks, mask_ms=mask_ms))


def test_masks_that_are_multiplied_in_each_call_are_waste_by_their_time() -> None:
    finding = check(0.9, 3, 5.0)
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.HIGH)
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.5)
    assert "prune.remove" in finding.advice


def test_of_masks_that_take_hardly_any_time_the_zeros_are_told() -> None:
    finding = check(0.9, 3, 0.01)
    assert (finding.severity, finding.ceiling) == (Severity.LOW, None) and "90 %" in finding.title
    assert check(0.1, 3, 0.01).state is State.PASSED


def test_zeros_without_masks_give_no_speed_which_is_told_at_the_lowest_severity() -> None:
    finding = check(0.5)
    assert (finding.state, finding.severity, finding.ceiling) == (State.DIAGNOSTIC, Severity.LOW, None)


def test_a_model_with_few_zeros_passes() -> None:
    assert check(0.01).state is State.PASSED


def test_weights_that_were_not_looked_at_are_not_judged() -> None:
    assert check(None).state is State.NOT_APPLICABLE
