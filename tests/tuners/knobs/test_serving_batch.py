"""Several samples in one call of a trained model."""

from dataclasses import replace

import pytest
from builders import a_rich_profile

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.serving_batch import ServingBatch
from advisor.workloads.gathering import Gathering


def serving(batch: int | None, kind: str = "workload") -> Profile:
    profile = a_rich_profile(target_kind=kind)
    assert profile.run is not None
    return replace(profile, run=replace(profile.run, clock="request", requests_batch=batch))


@pytest.mark.parametrize(
    ("batch", "choices"),
    [
        (1, [1, 2, 4, 8, 16]),
        (32, [32, 64, 128, 256, 16, 8]),
        (256, [256, 128, 64]),
        (6, [6, 12, 24, 48, 96, 3]),
    ],
)
def test_more_and_fewer_samples_are_tried(batch: int, choices: list[int]) -> None:
    assert ServingBatch().choices(serving(batch)) == choices


@pytest.mark.parametrize(("kind", "why"), [("script", "itself"), ("workload", "--objective requests")])
def test_where_samples_are_not_put_together_for_it_there_is_nothing_to_try(kind: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        ServingBatch().choices(serving(None, kind))


def test_a_request_has_as_many_samples_as_it_says() -> None:
    plan = Gathering(4)
    ServingBatch().gather(plan, 16)
    assert plan == Gathering(16)
