"""What a gain means for the training that is planned."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from builders import a_loader, a_profile
from result_builder import a_ratio, a_recommendation

from advisor.base.settings import Settings, TargetRequest
from advisor.profiles.facts.profile import RunFacts
from advisor.result.document import PlannedRun
from advisor.stages.assemble import _planned
from advisor.stages.batch_size import Batches
from advisor.stages.planned import planned_run
from advisor.tuners.comparing.batches.goodput import NoiseScale
from advisor.tuners.knob import Value

GAIN = {"estimate": 2.0, "low": 1.6, "high": 2.5}


def planned(ratio: dict[str, float] | None = GAIN, **changed: Any) -> PlannedRun:
    profile = a_profile(loader=a_loader(dataset_length=1000), run=RunFacts(samples_per_step=10.0))
    given = {"steps": 5000, "batch_ratio": 1.0, "compile_s": None, "price_per_hour": None, **changed}
    found = planned_run(profile, 0.1, ratio, **given)
    assert found is not None
    return found


def test_an_epoch_and_the_run_are_told_as_they_are_and_changed() -> None:
    run = planned()
    assert run.epoch_s == pytest.approx(10.0)
    assert run.seconds == pytest.approx(500.0)
    assert run.changed_epoch_s is not None and run.changed_seconds is not None
    assert run.changed_epoch_s.estimate == pytest.approx(5.0)
    assert run.changed_seconds.low == pytest.approx(200.0)
    assert run.changed_seconds.high == pytest.approx(312.5)


def test_compiling_is_paid_once_for_the_run_and_not_in_every_epoch() -> None:
    run = planned(compile_s=60.0)
    assert run.changed_epoch_s is not None and run.changed_seconds is not None
    assert run.changed_epoch_s.estimate == pytest.approx(5.0)
    assert run.changed_seconds.estimate == pytest.approx(310.0)


def test_a_larger_batch_takes_fewer_steps_over_the_same_samples() -> None:
    assert planned(batch_ratio=4.0).changed_steps == 1250


def test_the_time_is_by_the_clock_and_not_by_what_the_samples_are_worth() -> None:
    config: dict[str, Value] = {"batch_size": 80, "lr_scaling": "linear"}
    settings = Settings(target=TargetRequest(kind="script", name="train.py"), steps_planned=4000)
    batches = replace(Batches(settings, cast(Any, None)), noise=NoiseScale(60.0, 60.0, 60.0))
    profile = a_profile(loader=a_loader(dataset_length=1000), run=RunFacts(samples_per_step=10.0))
    run = _planned(
        settings,
        cast(Any, SimpleNamespace(profile=profile, step_s=0.1)),
        cast(Any, SimpleNamespace(present={"batch_size": 10, "lr_scaling": "none"})),
        a_recommendation(speedup=a_ratio(2.0, 1.8, 2.2), config=config),
        batches,
    )
    assert run is not None and run.changed_epoch_s is not None and run.changed_seconds is not None
    assert run.changed_steps == 500
    assert run.changed_epoch_s.estimate == pytest.approx(2.5)  # half the worth of a sample, 4 times as many
    assert run.changed_seconds.low == pytest.approx(400 / 4.4)


def test_a_price_gives_the_cost_of_both() -> None:
    run = planned(price_per_hour=7.2)
    assert run.cost == pytest.approx(1.0)
    assert run.changed_cost == pytest.approx(0.5)


def test_without_a_recommendation_only_the_present_is_told() -> None:
    run = planned(None, price_per_hour=7.2)
    assert run.seconds == pytest.approx(500.0)
    assert run.changed_seconds is None and run.changed_cost is None and run.changed_epoch_s is None


def test_without_a_length_of_any_kind_nothing_is_told() -> None:
    bare = a_profile(loader=None, run=RunFacts())
    assert (
        planned_run(bare, 0.1, GAIN, steps=None, batch_ratio=1, compile_s=None, price_per_hour=None) is None
    )
