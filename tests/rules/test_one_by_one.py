from dataclasses import replace

import pytest
from builders import a_loader, a_served_profile

from advisor.advice.finding import Finding, Kind, State
from advisor.profiles.facts.profile import LoaderFacts
from advisor.rules.one_by_one import OneByOne


def check(eight_at_once: float | None, loader: LoaderFacts | None) -> Finding:
    return OneByOne().check(replace(a_served_profile(eight_at_once=eight_at_once), loader=loader))


def test_a_loader_of_single_rows_has_headroom_by_what_eight_take() -> None:
    finding = check(2.0, a_loader(batch_size=1))
    assert (finding.state, finding.kind) == (State.OPPORTUNITY, Kind.HEADROOM)
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.75)
    assert finding.title.startswith("4 times as many samples") and "batch_size=8" in finding.advice


def test_a_model_that_takes_eight_times_as_long_passes() -> None:
    assert check(7.5, a_loader(batch_size=1)).state is State.PASSED


def test_requests_that_no_loader_gives_may_come_from_outside() -> None:
    finding = check(2.0, None)
    assert finding.state is State.PASSED and "no DataLoader" in finding.title


def test_requests_of_several_samples_are_not_judged() -> None:
    assert check(None, a_loader(batch_size=1)).state is State.NOT_APPLICABLE


def test_a_workload_that_is_there_as_a_whole_is_tried_with_larger_requests() -> None:
    profile = a_served_profile(eight_at_once=2.0)
    assert profile.run is not None
    finding = OneByOne().check(replace(profile, run=replace(profile.run, requests_batch=1)))
    assert finding.fired and finding.knobs == ("serving_batch",) and "of the workload" in finding.advice
    assert check(2.0, a_loader(batch_size=1)).knobs == ()
