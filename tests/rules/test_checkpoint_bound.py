from typing import Any

import pytest
from builders import a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.checkpoint_bound import CheckpointBound

HERE = Location("train.py", 50)


def check(save_s: float, **run: Any) -> Finding:
    facts = {"wall_s": 100.0, "saves": 20, "save_every": 25.0, "save_location": HERE, **run}
    return CheckpointBound().check(a_profile(run=RunFacts(save_s=save_s, **facts)))


def test_saving_that_takes_a_part_of_the_run_is_reported_with_what_rarer_saves_risk() -> None:
    finding = check(12.0)
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.12)
    assert finding.ceiling.of == "run"
    assert (finding.state, finding.severity, finding.location) == (State.OPPORTUNITY, Severity.MEDIUM, HERE)
    assert finding.title == "12 % of the run saves checkpoints"
    assert "every 25 steps" in finding.advice and "a crash then loses" in finding.advice


def test_just_below_the_threshold_it_passes_with_its_number() -> None:
    finding = check(4.9)
    assert (finding.state, finding.title) == (State.PASSED, "4.9 % of the run saves checkpoints")


def test_two_saves_leave_room_for_one_more_or_less() -> None:
    assert check(30.0, saves=2).severity is Severity.MEDIUM


def test_a_save_seen_once_is_not_blown_up() -> None:
    finding = check(40.0, saves=1, save_every=None)
    assert finding.state is State.NOT_APPLICABLE
    assert finding.title.startswith("seen once: 40 s of saving")


def test_a_run_that_does_not_save_passes() -> None:
    finding = check(0.0, saves=0, save_every=None)
    assert (finding.state, finding.title) == (State.PASSED, "0.0 % of the run saves checkpoints")


def test_without_the_time_of_the_run_nothing_is_said() -> None:
    assert check(1.0, wall_s=None).state is State.NOT_APPLICABLE
