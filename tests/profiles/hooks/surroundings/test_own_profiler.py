"""A program that uses torch.profiler itself is known as such for as long as its profiler goes on."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from builders import a_profile, a_rich_profile
from torch.profiler import schedule

from advisor.profiles.events import Run
from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.watch import Watch
from advisor.stages.diagnosing.watched import unrecorded


@pytest.fixture
def watch() -> Iterator[Watch]:
    watched = Watch(Run({}, {}), Clock(lambda step: None))
    watched.install()
    yield watched
    watched.remove()


def test_one_that_starts_again_and_again_is_known_until_it_stops(watch: Watch) -> None:
    ahead = watch._debugging
    assert ahead.profiler_ahead is None
    with torch.profiler.profile(schedule=schedule(wait=5, warmup=1, active=1)) as profiler:
        found = ahead.profiler_ahead
        assert found is not None and found.file == __file__
        profiler.step()
        assert "profiler" in ahead.facts()["debug"] and ahead.facts()["debug_location"] == found
    assert ahead.profiler_ahead is None


def test_one_whose_schedule_is_over_is_none(watch: Watch) -> None:
    with torch.profiler.profile(schedule=schedule(wait=1, warmup=1, active=1, repeat=1)) as profiler:
        assert watch._debugging.profiler_ahead is not None
        for _ in range(4):
            profiler.step()
        assert watch._debugging.profiler_ahead is None


def test_such_a_program_is_not_recorded_and_the_line_is_said() -> None:
    run = a_rich_profile().run
    assert run is not None and unrecorded(a_profile(run=run)) is None
    reason = unrecorded(a_profile(run=replace(run, own_profiler=Location("train.py", 7))))
    assert reason is not None and "torch.profiler itself, at train.py:7" in reason
