from typing import Any

import pytest
from builders import a_profile, a_share

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import RunFacts
from advisor.profiles.facts.replayed import Replays
from advisor.rules.gradients_in_evaluation import GradientsInEvaluation

HERE = Location("train.py", 30)


def check(graph_share: float | None = None, **run: Any) -> Finding:
    facts = {"evaluation_records_graph": True, "evaluations": 4, "evaluation_location": HERE, **run}
    without = None if graph_share is None else a_share(graph_share)
    profile = a_profile(run=RunFacts(**facts), replays=Replays(evaluation_without_graph=without))
    return GradientsInEvaluation().check(profile)


def test_the_graphs_share_of_the_evaluations_is_the_ceiling() -> None:
    finding = check(0.3, evaluation_s=4.0, wall_s=10.0, evaluation_every=100.0)
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.12)
    assert finding.ceiling.of == "run"
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.MEDIUM)
    assert finding.title == "12 % of the run records graphs in evaluation"
    assert finding.location == HERE and "`with torch.inference_mode():`" in finding.advice


def test_a_graph_that_takes_little_time_still_keeps_memory() -> None:
    finding = check(0.1, evaluation_s=1.0, wall_s=10.0, evaluation_every=100.0)
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.LOW)
    assert finding.title.startswith("1.0 % of the run")


def test_one_evaluation_in_a_short_window_is_not_blown_up() -> None:
    finding = check(0.3, evaluation_s=4.0, wall_s=10.0, evaluations=1)
    assert (finding.state, finding.ceiling) == (State.DIAGNOSTIC, None)
    assert finding.title == "1 evaluation records a graph"


def test_without_a_replay_no_ceiling_is_claimed() -> None:
    finding = check(evaluation_s=4.0, wall_s=10.0, evaluation_every=100.0)
    assert (finding.state, finding.severity, finding.ceiling) == (State.DIAGNOSTIC, Severity.MEDIUM, None)


def test_an_evaluation_without_gradients_is_right() -> None:
    finding = check(evaluation_records_graph=False)
    assert (finding.state, finding.title) == (State.PASSED, "0 of 4 evaluations record a graph")


def test_a_run_that_never_evaluates_is_not_judged() -> None:
    assert check(evaluation_records_graph=None).state is State.NOT_APPLICABLE
