from typing import Any

from builders import a_profile, a_root

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import Location, RankFacts
from advisor.rules.unused_parameter_search import UnusedParameterSearch

HERE = Location("train.py", 12)


def check(**root: Any) -> Finding:
    wrapped = a_root(parallel="DistributedDataParallel", location=HERE, **root)
    return UnusedParameterSearch().check(a_profile(ranks=(RankFacts(0, 10.0),), roots=(wrapped,)))


def test_a_search_that_finds_nothing_is_reported() -> None:
    finding = check(find_unused_parameters=True, unused_parameters=0)
    assert finding.title == "0 of the parameters of Net are unused, and each step searches for them"
    assert (finding.state, finding.severity, finding.location) == (State.DIAGNOSTIC, Severity.MEDIUM, HERE)
    assert "Leave out `find_unused_parameters=True`" in finding.advice


def test_a_search_that_finds_some_is_needed() -> None:
    assert check(find_unused_parameters=True, unused_parameters=3).state is State.PASSED


def test_a_static_graph_searches_only_once() -> None:
    finding = check(find_unused_parameters=True, unused_parameters=0, static_graph=True)
    assert finding.state is State.PASSED


def test_ddp_without_the_search_is_right() -> None:
    assert check(find_unused_parameters=False, unused_parameters=0).state is State.PASSED


def test_without_ddp_or_an_update_nothing_is_said() -> None:
    assert check().state is State.NOT_APPLICABLE
    assert check(find_unused_parameters=True).state is State.NOT_APPLICABLE
