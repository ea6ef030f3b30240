"""Samples of like length in one request."""

from dataclasses import replace

import pytest
from builders import a_rich_profile

from advisor.base.settings import Settings, TargetRequest
from advisor.profiles.facts.profile import Profile
from advisor.stages.asked_limits import within_limits
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.length_bucketing import LengthBucketing
from advisor.workloads.gathering import Gathering


def serving(padding: float | None, batch: int | None = 8, kind: str = "workload") -> Profile:
    profile = a_rich_profile(target_kind=kind)
    assert profile.run is not None
    run = replace(profile.run, clock="request", requests_batch=batch, requests_padding=padding)
    return replace(profile, run=run)


def test_pools_are_tried_where_padding_is_saved_and_more_is_expected_of_more() -> None:
    knob = LengthBucketing()
    assert knob.choices(serving(0.4)) == [1, 8, 32]
    some, much = (knob.expected(serving(share), 8) for share in (0.1, 0.5))
    assert some is not None and much is not None and 1 < some < much == pytest.approx(2)
    assert knob.expected(serving(0.5), 1) is None


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (serving(0.0), "leaves out 0.0%"),
        (serving(None), "--latency-limit"),
        (serving(None, None), "--objective requests"),
        (serving(None, None, "script"), "itself"),
    ],
)
def test_where_nothing_is_saved_or_nothing_can_be_sorted_it_says_why_not(profile: Profile, why: str) -> None:
    with pytest.raises(Refused, match=why):
        LengthBucketing().choices(profile)


def test_under_a_latency_limit_no_request_waits_for_a_pool() -> None:
    target = TargetRequest(kind="workload", name="infer.py")
    limited = Settings(target=target, objective="requests", latency_limit_s=0.02)
    assert within_limits(serving(0.4), Settings(target=target, objective="requests")) == serving(0.4)
    with pytest.raises(Refused, match="--latency-limit"):
        LengthBucketing().check(8, within_limits(serving(0.4), limited))


def test_a_pool_has_so_many_requests() -> None:
    plan = Gathering(4)
    LengthBucketing().gather(plan, 8)
    assert plan == Gathering(4, 8)
