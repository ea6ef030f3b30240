import pytest
from builders import a_profile, a_served_profile

from advisor.advice.finding import State
from advisor.rules.cold_request import ColdRequest


def test_a_first_request_that_does_what_belongs_before_it_is_told() -> None:
    finding = ColdRequest().check(a_served_profile(first_ms=1500.0))
    assert finding.state is State.DIAGNOSTIC and finding.ceiling is None
    assert finding.title == "1,500 ms took the first request, later ones 10 ms"


@pytest.mark.parametrize("first_ms", [12.0, 150.0])
def test_one_that_is_hardly_slower_passes(first_ms: float) -> None:
    assert ColdRequest().check(a_served_profile(first_ms=first_ms)).state is State.PASSED


def test_where_requests_are_not_marked_a_call_may_warm_up() -> None:
    finding = ColdRequest().check(a_served_profile())
    assert finding.state is State.NOT_APPLICABLE and "advisor.request()" in finding.title
    assert ColdRequest().check(a_profile()).state is State.NOT_APPLICABLE
