from typing import Any

import pytest
from builders import a_loader, a_profile
from growing_profiles import a_growing_profile, read

from advisor.advice.advise import advise
from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.growing import GrowingVariable, Readings
from advisor.profiles.facts.observed import HostFacts, HotSpot, Location, StepSeries
from advisor.rules import RULES
from advisor.rules.rising_step_time import RisingStepTime

LINE = Location("train.py", 30)
RISING = (read("step", lambda step: 5 + 0.05 * step), read("forward", lambda step: 3 + 0.05 * step))


def test_the_part_that_rises_is_told_with_the_line_met_most_in_it() -> None:
    spots = (HotSpot("backward", Location("train.py", 9), 0.9), HotSpot("forward", LINE, 0.5))
    finding = RisingStepTime().check(a_growing_profile(*RISING, hotspots=spots))
    assert (finding.state, finding.kind, finding.severity) == (State.OPPORTUNITY, Kind.WASTE, Severity.HIGH)
    assert finding.title == (
        "50 us more in each step than in the last, in forward: 6 ms became 29.2 ms in 465 steps"
    )
    assert finding.location == LINE


def test_hooks_that_pile_up_are_what_to_take_away() -> None:
    hooks = read("hooks", lambda step: 11 * step)
    profile = a_growing_profile(*RISING, hooks, hooks_location=LINE)
    finding = RisingStepTime().check(profile)
    assert "Remove the hooks" in finding.advice and finding.location == LINE


def test_a_list_that_grows_meanwhile_is_named() -> None:
    history = GrowingVariable("history", 1.0, LINE)
    finding = RisingStepTime().check(a_growing_profile(*RISING, variables=[history]))
    assert "`history`" in finding.advice and finding.location == LINE


def test_a_rise_of_a_few_percent_passes_with_its_number() -> None:
    finding = RisingStepTime().check(a_growing_profile(read("step", lambda step: 10 + 0.002 * step)))
    assert finding.state is State.PASSED and finding.title == "steps became 9.3 % slower in 465 steps"


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({}, State.NOT_APPLICABLE),
        ({"memory": 1e6}, State.NOT_APPLICABLE),
        ({"variables": [GrowingVariable("history", 1.0, LINE)]}, State.DIAGNOSTIC),
        ({"host": None}, State.OPPORTUNITY),
    ],
    ids=["alone", "beside memory that stays", "beside a list that grows", "without other programs"],
)
def test_a_rise_beside_other_programs_in_which_nothing_grows_may_be_theirs(
    facts: dict[str, Any], state: State
) -> None:
    facts = dict(facts)
    steps = tuple(range(20, 44, 2))
    readings = Readings("step", steps, tuple(200.0 + 60 * step for step in steps))
    per_step = facts.pop("memory", 0.0)
    memory = Readings("memory", steps, tuple(1e9 + per_step * step for step in steps))
    facts = {"host": HostFacts(other_cpus=1.0), **facts}
    findings = {each.rule: each for each in advise(a_growing_profile(readings, memory, **facts), RULES)}
    assert findings["rising_step_time"].state is state


@pytest.mark.parametrize(
    ("optimizer", "grows", "state"),
    [(1.0, False, State.NOT_APPLICABLE), (0.0, False, State.OPPORTUNITY), (1.0, True, State.OPPORTUNITY)],
    ids=["all parts", "not the optimizer", "all parts, and a list"],
)
def test_a_rise_of_all_parts_alike_is_of_the_machine(optimizer: float, grows: bool, state: State) -> None:
    readings = (
        read("step", lambda step: 10 + 0.02 * step), read("forward", lambda step: 4 + 0.008 * step),
        read("backward", lambda step: 5 + 0.01 * step),
        read("optimizer", lambda step: 1 + 0.002 * step * optimizer),
    )  # fmt: skip
    history = [GrowingVariable("history", 1.0, LINE)] if grows else []
    finding = RisingStepTime().check(a_growing_profile(*readings, variables=history))
    assert finding.state is state
    if state is State.NOT_APPLICABLE:
        assert "a machine that stays as fast, while 10.4 ms became 19.7 ms in 465 steps" in finding.title


def test_steps_of_several_sizes_are_not_compared() -> None:
    profile = a_growing_profile(*RISING, loader=a_loader(shapes_vary=True))
    assert RisingStepTime().check(profile).state is State.NOT_APPLICABLE
    assert RisingStepTime().check(a_profile()).state is State.NOT_APPLICABLE


@pytest.mark.parametrize(("samples", "state"), [(0.05, State.PASSED), (0.01, State.OPPORTUNITY)])
def test_steps_that_take_more_samples_are_no_slower(samples: float, state: State) -> None:
    """A step of a game that lasts longer and longer, as it is learnt."""
    took = read("samples", lambda step: round(20 * (5 + samples * step)))
    finding = RisingStepTime().check(a_growing_profile(*RISING, took))
    assert finding.state is state


def test_steps_that_rise_are_not_called_unstable() -> None:
    series = StepSeries(steps=400, median_ms=15, mean_ms=17, p5_ms=6, p95_ms=29, outliers=30)
    findings = {each.rule: each for each in advise(a_growing_profile(*RISING, series=series), RULES)}
    assert findings["rising_step_time"].fired and not findings["unstable_steps"].fired
    assert next(each.rule for each in findings.values() if each.fired) == "rising_step_time"
