from dataclasses import replace

import pytest
from builders import a_profile, a_served_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.served import MadeAnew
from advisor.rules.repeated_model_load import RepeatedModelLoad

LINE = Location("serve.py", 12, "answer")


def check(per_request: float = 1.0, inside_ms: float = 8.0, kind: str = "load") -> Finding:
    made = MadeAnew(kind, "torch.load", per_request, 8.0, inside_ms, LINE)
    return RepeatedModelLoad().check(a_served_profile(made=(made,)))


def test_what_each_request_makes_is_waste_by_its_share_of_the_request() -> None:
    finding = check()
    assert (finding.state, finding.severity, finding.location) == (State.OPPORTUNITY, Severity.HIGH, LINE)
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.8)
    assert "`torch.load` once, before the first request" in finding.advice


def test_what_passes_beside_the_requests_has_no_share_of_them() -> None:
    finding = check(inside_ms=0.0)
    assert (finding.state, finding.severity, finding.ceiling) == (State.DIAGNOSTIC, Severity.HIGH, None)


def test_what_passes_between_requests_counts_where_that_time_does() -> None:
    profile = a_served_profile(made=(MadeAnew("load", "torch.load", 1.0, 8.0, 0.0, LINE),))
    assert profile.run is not None
    finding = RepeatedModelLoad().check(replace(profile, run=replace(profile.run, requests_whole=True)))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.8)


@pytest.mark.parametrize(("per_request", "kind"), [(0.01, "load"), (1.0, "form")])
def test_an_exception_and_another_kind_pass(per_request: float, kind: str) -> None:
    assert check(per_request, kind=kind).state is State.PASSED


def test_a_training_is_not_judged() -> None:
    assert RepeatedModelLoad().check(a_profile()).state is State.NOT_APPLICABLE
