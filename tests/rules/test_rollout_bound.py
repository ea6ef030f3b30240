from typing import Any

from builders import a_profile

from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.observed import HotSpot, Location
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.evaluation_bound import EvaluationBound
from advisor.rules.rollout_bound import RolloutBound

LINE, MOVE = Location("/home/me/play.py", 29, "play"), Location("/home/me/play.py", 19, "move")
PLAYS: dict[str, Any] = {
    "wall_s": 100.0, "evaluation_s": 80.0, "evaluations": 20, "evaluation_every": 8.0,
    "evaluation_forwards": 640.0, "evaluation_rows": 1.0, "evaluation_in_training_mode": True,
}  # fmt: skip


def check(**run: Any) -> Finding:
    spots = (HotSpot("other", MOVE, 0.9), HotSpot("evaluation", LINE, 0.8))
    return RolloutBound().check(a_profile(run=RunFacts(**{**PLAYS, **run}), hotspots=spots))


def test_states_played_one_by_one_are_joined() -> None:
    finding = check()
    assert finding.title == "80 % of the run plays without gradients: 640 forwards of 1 row between updates"
    assert (finding.severity, finding.location) == (Severity.HIGH, LINE)
    assert "one forward" in finding.advice and finding.ceiling is not None and finding.ceiling.of == "run"


def test_large_forwards_are_not_told_to_be_joined() -> None:
    finding = check(evaluation_rows=256.0)
    assert finding.kind is Kind.HEADROOM and "one forward" not in finding.advice


def test_a_short_rollout_passes() -> None:
    assert check(evaluation_s=5.0).state is State.PASSED


def test_single_states_are_played_however_many_updates_follow() -> None:
    assert check(evaluation_every=320.0, evaluation_forwards=2049.0).fired


def test_an_evaluation_is_none() -> None:
    for other in (
        {"evaluation_in_training_mode": False}, {"evaluation_every": 500.0, "evaluation_rows": 64.0},
        {"evaluation_forwards": 1.0}, {"evaluation_judges": True},
    ):  # fmt: skip
        assert check(**other).title == "0 rollouts without gradients between updates"


def test_nobody_says_that_a_rollout_should_come_less_often() -> None:
    for facts in ({}, {"evaluation_every": 320.0}, {"evaluation_forwards": 3.0, "evaluation_rows": 256.0}):
        run = RunFacts(**{**PLAYS, **facts})  # the last are targets
        assert EvaluationBound().check(a_profile(run=run)).state is State.PASSED
    assert (
        EvaluationBound()
        .check(a_profile(run=RunFacts(**{**PLAYS, "evaluation_in_training_mode": False})))
        .fired
    )


def test_a_look_every_so_many_steps_is_to_come_less_often() -> None:
    finding = EvaluationBound().check(a_profile(run=RunFacts(**{**PLAYS, "evaluation_judges": True})))
    assert finding.fired and "instead of every 8" in finding.advice
