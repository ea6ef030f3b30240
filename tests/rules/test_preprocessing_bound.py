from dataclasses import replace

import pytest
from builders import a_served_profile

from advisor.advice.finding import Finding, State
from advisor.profiles.facts.observed import HotSpot, Location
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.served import MadeAnew
from advisor.rules.preprocessing_bound import PreprocessingBound

LINE = Location("serve.py", 30, "prepared")


def a_run(before_ms: float | None, other_ms: float = 6.0) -> Profile:
    phases_ms = {"forward": 10.0 - other_ms, "other": other_ms}
    profile = a_served_profile(phases_ms=phases_ms, before_ms=before_ms)
    spots = HotSpot("other", LINE, 0.8), HotSpot("forward", Location("model.py", 1), 0.9)
    return replace(profile, hotspots=spots)


def check(before_ms: float | None, other_ms: float = 6.0) -> Finding:
    return PreprocessingBound().check(a_run(before_ms, other_ms))


def test_time_before_the_model_is_waste_at_the_line_that_was_met_most() -> None:
    finding = check(5.0)
    assert finding.state is State.OPPORTUNITY and finding.location == LINE
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.49)
    assert finding.ceiling.low == pytest.approx(0.245) and "at serve.py:30" in finding.advice


def test_never_more_than_what_is_not_the_model() -> None:
    finding = check(9.0, other_ms=4.0)
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.39)


def test_little_before_the_model_passes_whatever_comes_after_it() -> None:
    assert check(1.0).state is State.PASSED


def test_where_nobody_says_when_a_request_begins_nothing_is_judged() -> None:
    finding = check(None)
    assert finding.state is State.NOT_APPLICABLE and "advisor.request()" in finding.title


def test_weights_loaded_there_are_a_finding_of_their_own() -> None:
    profile = a_run(5.0)
    assert profile.served is not None
    made = MadeAnew("load", "load", 1.0, 3.0, 3.0)
    finding = PreprocessingBound().check(replace(profile, served=replace(profile.served, made=(made,))))
    assert finding.state is State.PASSED and "`load` says why" in finding.title


def test_what_a_library_does_before_its_model_is_not_the_programs() -> None:
    asking = HotSpot("other", LINE, 0.8), HotSpot("forward", LINE, 0.9)
    finding = PreprocessingBound().check(replace(a_run(5.0), hotspots=asking))
    assert finding.state is State.PASSED and "library" in finding.title
