from builders import a_profile

from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.train_mode_inference import TrainModeInference


def check(training: bool | None) -> Finding:
    return TrainModeInference().check(a_profile(run=RunFacts(requests_in_training_mode=training)))


def test_a_model_that_answers_in_training_mode_is_a_risk() -> None:
    finding = check(True)
    assert (finding.state, finding.severity, finding.kind) == (State.DIAGNOSTIC, Severity.HIGH, Kind.RISK)
    assert "`model.eval()`" in finding.advice


def test_a_model_in_evaluation_mode_is_right() -> None:
    assert check(False).state is State.PASSED


def test_a_training_is_not_judged() -> None:
    finding = check(None)
    assert (finding.state, finding.title) == (
        State.NOT_APPLICABLE,
        "requests: the run was not counted in requests",
    )
