"""What rises, what only swings or jumps, and when a limit is met."""

import random
from collections.abc import Callable

import pytest
from builders import a_loader, a_profile
from growing_profiles import STEPS, a_growing_profile, read

from advisor.profiles.derived.trends import grower, planned_steps, trend, trends, within
from advisor.profiles.facts.growing import GrowingVariable, Readings
from advisor.profiles.facts.profile import RunFacts, StepPhases

CHANCE = random.Random(3)
NOISE = {step: CHANCE.gauss(1, 0.05) for step in STEPS}


def test_a_steady_rise_has_its_slope_and_meets_its_limit() -> None:
    found = trend(read("open_files", lambda step: 12 + step, limit=1024))
    assert found is not None
    assert (found.per_step, found.met_at) == (1.0, 1012)
    assert (found.first, found.last) == (12 + STEPS[0], 12 + STEPS[-1])


def test_noise_does_not_hide_a_rise_that_is_larger() -> None:
    found = trend(read("step", lambda step: (5 + 0.02 * step) * NOISE[step]))
    assert found is not None and found.per_step == pytest.approx(0.02, rel=0.2)


@pytest.mark.parametrize(
    "values",
    [
        lambda step: 5 * NOISE[step],
        lambda step: 5 + 5 * (step > 250),
        lambda step: 5 + 5 * (step % 60 < 30),
        lambda step: 12 + min(step, 100),
        lambda step: 500 - step,
        lambda step: 7,
        lambda step: 10 + step % 200,
    ],
    ids=["noise", "one jump", "swinging", "full after a while", "falling", "constant", "freed by epoch"],
)
def test_what_does_not_rise_steadily_is_no_trend(values: Callable[[int], float]) -> None:
    assert trend(read("step", values)) is None


def test_readings_that_come_closer_together_do_not_end_a_rise() -> None:
    steps, at = list[int](), 0
    for number in range(36):  # each takes longer to come by, so fewer steps lie between two of them
        at += max(40, 700 - 60 * number)
        steps.append(at)
    found = trend(Readings("step", tuple(steps), tuple(0.7 + 0.0004 * step for step in steps)))
    assert found is not None and found.per_step == pytest.approx(0.0004)
    settled = tuple(0.7 + 0.0004 * min(step, steps[12]) for step in steps)
    assert trend(Readings("step", tuple(steps), settled)) is None


def test_a_few_readings_tell_nothing() -> None:
    assert trend(Readings("step", (1, 2, 3, 4, 5), (1, 2, 3, 4, 5))) is None


def test_trends_are_told_by_kind() -> None:
    profile = a_growing_profile(read("step", lambda _: 5), read("threads", lambda step: step))
    assert set(trends(profile)) == {"threads"}
    assert trends(a_profile()) == {}


def test_the_variable_behind_a_rise_grows_as_fast() -> None:
    slow, fast = GrowingVariable("log", 0.02), GrowingVariable("labels", 1.1, holds="shared")
    profile = a_growing_profile(variables=[fast, slow])
    assert grower(profile, 1.0) is fast
    assert grower(profile, 0.02) is slow
    assert grower(profile, 1.0, ("files",)) is None


def test_the_planned_length_is_that_of_the_training_or_of_one_epoch() -> None:
    loader = a_loader(dataset_length=64_000, batch_size=32)
    assert planned_steps(a_profile(loader=loader)) == (2000, "steps of an epoch")
    assert planned_steps(a_profile(loader=loader, run=RunFacts(steps_total=500))) == (500, "steps planned")
    assert planned_steps(a_profile()) is None


def test_a_limit_beyond_the_run_is_none() -> None:
    profile = a_profile(run=RunFacts(steps_total=500))
    assert within(profile, 501) is None
    assert within(profile, 400) == "of 500 steps planned"


def test_a_run_without_a_known_length_may_last_a_day() -> None:
    profile = a_profile(phases=StepPhases(step_ms=1000.0))
    assert within(profile, 7200) == "after 2 hours"
    assert within(profile, 90_000) is None
