import pytest
from builders import a_served_profile

from advisor.advice.finding import Severity, State
from advisor.rules.calibration_is_validation import CalibrationIsValidation


def test_answers_to_calibration_inputs_are_a_risk_for_what_is_believed_of_them() -> None:
    finding = CalibrationIsValidation().check(a_served_profile(calibrated=320, calibrated_share=1.0))
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.MEDIUM)
    assert finding.title.startswith("100 % of the inputs") and "training set" in finding.advice


@pytest.mark.parametrize(("calibrated", "share"), [(320, 0.4), (1, 1.0)])
def test_other_inputs_or_one_batch_for_everything_pass(calibrated: int, share: float) -> None:
    profile = a_served_profile(calibrated=calibrated, calibrated_share=share)
    assert CalibrationIsValidation().check(profile).state is State.PASSED


def test_without_a_calibration_nothing_is_judged() -> None:
    assert CalibrationIsValidation().check(a_served_profile()).state is State.NOT_APPLICABLE
