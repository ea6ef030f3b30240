from dataclasses import replace

import pytest
from builders import a_profile

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.garbage_collection import GarbageCollection


def test_long_pauses_are_reported_with_what_freezing_keeps() -> None:
    run = RunFacts(gc_s=1.5, gc_collections=30, wall_s=10.0)
    finding = GarbageCollection().check(a_profile(run=run))
    assert finding.title == "15 % of the run collects garbage, in 30 pauses"
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.MEDIUM)
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.15)
    assert finding.ceiling.of == "run"
    assert "`gc.collect(); gc.freeze()`" in finding.advice and "memory" in finding.advice


def test_collections_that_a_line_asks_for_are_to_be_left_out() -> None:
    line = Location("train.py", 15, "tidy")
    run = RunFacts(gc_s=1.5, gc_collections=30, wall_s=10.0, gc_asked_s=1.4, gc_location=line)
    finding = GarbageCollection().check(a_profile(run=run))
    assert "30 pauses that `gc.collect()` at train.py:15" in finding.title
    assert "out of the step" in finding.advice and "freeze" not in finding.advice
    assert finding.location == line
    few = GarbageCollection().check(a_profile(run=replace(run, gc_asked_s=0.5)))
    assert "freeze" in few.advice and few.location is None


def test_pauses_that_are_not_worth_the_change_pass() -> None:
    assert GarbageCollection().check(a_profile(run=RunFacts(gc_s=0.15, wall_s=10.0))).state is State.PASSED


def test_no_pauses_pass_with_a_number() -> None:
    finding = GarbageCollection().check(a_profile(run=RunFacts(wall_s=10.0)))
    assert (finding.state, finding.title) == (State.PASSED, "0.0 % of the run collects garbage")


def test_without_the_time_of_the_run_nothing_is_said() -> None:
    assert GarbageCollection().check(a_profile(run=RunFacts(gc_s=1.0))).state is State.NOT_APPLICABLE
