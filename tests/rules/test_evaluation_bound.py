from typing import Any

import pytest
from builders import a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.evaluation_bound import EvaluationBound

HERE = Location("train.py", 40)


def check(evaluation_s: float, **run: Any) -> Finding:
    facts = {"wall_s": 100.0, "evaluations": 10, "evaluation_every": 50.0, "evaluation_location": HERE, **run}
    return EvaluationBound().check(a_profile(run=RunFacts(evaluation_s=evaluation_s, **facts)))


def test_a_third_of_the_run_is_reported_with_an_interval_that_takes_five_per_cent() -> None:
    finding = check(33.0)
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.33)
    assert finding.ceiling.of == "run"
    assert (finding.state, finding.severity, finding.location) == (State.OPPORTUNITY, Severity.HIGH, HERE)
    assert finding.title == "33 % of the run evaluates"
    assert finding.advice.startswith("Evaluate every 470 steps instead of every 50;")


def test_recorded_graphs_are_repaired_first() -> None:
    finding = check(33.0, evaluation_records_graph=True)
    assert "`with torch.inference_mode():`" in finding.advice


def test_just_below_the_threshold_it_passes_with_its_number() -> None:
    finding = check(9.4)
    assert (finding.state, finding.title) == (State.PASSED, "9.4 % of the run evaluates")


def test_two_evaluations_leave_room_for_one_more_or_less() -> None:
    finding = check(30.0, evaluations=2)
    assert finding.ceiling is not None
    assert finding.ceiling.low == pytest.approx(0.15)
    assert finding.severity is Severity.MEDIUM


def test_an_evaluation_seen_once_is_not_blown_up() -> None:
    finding = check(40.0, evaluations=1, evaluation_every=None)
    assert finding.state is State.NOT_APPLICABLE
    assert finding.title.startswith("seen once: 40 s of evaluation")


def test_a_run_that_does_not_evaluate_passes() -> None:
    finding = check(0.0, evaluations=0, evaluation_every=None)
    assert (finding.state, finding.title) == (State.PASSED, "0.0 % of the run evaluates")


def test_without_the_time_of_the_run_nothing_is_said() -> None:
    assert check(1.0, wall_s=None).state is State.NOT_APPLICABLE
