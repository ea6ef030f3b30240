from typing import Any

import pytest
from builders import a_gpu_profile, a_profile

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import Location, MemoryUse
from advisor.profiles.facts.profile import Profile, StepPhases
from advisor.rules.memory_growth import MemoryGrowth

GIB = 2**30


def growing(**facts: Any) -> MemoryUse:
    defaults: dict[str, Any] = {
        "host_peak_bytes": 4 * GIB,
        "growth_steps": 200,
        "growth_bytes": 2 * GIB,
        "growth_monotone": True,
        "growth_bytes_per_step": 2 * GIB / 200,
    }
    return MemoryUse(**{**defaults, **facts})


def test_a_steady_rise_is_a_high_risk_and_says_when_memory_is_full() -> None:
    finding = MemoryGrowth().check(a_profile(memory=growing(host_limit_bytes=16 * GIB)))
    assert (finding.state, finding.severity, finding.kind) == (State.DIAGNOSTIC, Severity.HIGH, Kind.RISK)
    assert finding.title == "2,048 MiB more memory after 200 steps, still rising: 12 % of all memory"
    assert finding.evidence["steps_until_full"] == 1200


def test_fifty_steps_and_one_gib_are_enough() -> None:
    assert MemoryGrowth().check(a_profile(memory=growing(growth_steps=50, growth_bytes=GIB))).fired


def test_a_quarter_of_a_gib_is_enough_where_memory_is_full_within_an_hour() -> None:
    fast = growing(
        growth_steps=50, growth_bytes=2**28, growth_bytes_per_step=2**28 / 50, host_limit_bytes=32 * GIB
    )
    assert MemoryGrowth().check(a_profile(phases=StepPhases(step_ms=100.0), memory=fast)).fired
    assert not MemoryGrowth().check(a_profile(phases=StepPhases(step_ms=1000.0), memory=fast)).fired


def test_heaps_that_grow_to_hold_some_steps_are_no_leak() -> None:
    facts = {"growth_steps": 50, "growth_bytes": 300 * 2**20, "growth_bytes_per_step": 6 * 2**20}
    phases = StepPhases(step_ms=100.0)
    for step_mib, fires in ((26, False), (6, True)):
        memory = growing(**facts, host_limit_bytes=32 * GIB, activation_bytes=step_mib * 2**20)
        assert MemoryGrowth().check(a_profile(phases=phases, memory=memory)).fired is fires


def test_the_holder_is_named_where_it_was_found() -> None:
    memory = growing(retained_name="losses", retained_location=Location("train.py", 40))
    finding = MemoryGrowth().check(a_profile(memory=memory))
    assert "`losses` (train.py:40)" in finding.advice
    assert finding.location == Location("train.py", 40)


@pytest.mark.parametrize(
    "facts",
    [
        {"growth_bytes": GIB - 1},
        {"growth_bytes": GIB // 2, "host_limit_bytes": 16 * GIB},
        {"growth_monotone": False},
        {"growth_bytes": -5},
    ],
    ids=["below 1 GiB", "below 5 % of memory", "not steady", "shrinking"],
)
def test_less_than_that_passes_with_its_number(facts: dict[str, Any]) -> None:
    finding = MemoryGrowth().check(a_profile(memory=growing(**facts)))
    assert finding.state is State.PASSED and "MiB more memory after 200 steps" in finding.title


def test_five_percent_of_a_small_memory_is_enough() -> None:
    memory = growing(growth_bytes=GIB // 4, host_limit_bytes=4 * GIB)
    assert MemoryGrowth().check(a_profile(memory=memory)).fired


def test_a_gpu_is_filled_against_its_own_memory() -> None:
    memory = growing(
        growth_bytes=GIB // 2,
        device_peak_bytes=2 * GIB,
        device_total_bytes=8 * GIB,
        host_limit_bytes=999 * GIB,
    )
    assert "6.2 % of all memory" in MemoryGrowth().check(a_gpu_profile(memory=memory)).title


@pytest.mark.parametrize(
    "profile",
    [
        a_profile(memory=growing(growth_bytes=None)),
        a_profile(memory=growing(growth_monotone=None)),
        a_profile(memory=growing(growth_steps=49)),
    ],
)
def test_without_fifty_steps_of_facts_nothing_is_said(profile: Profile) -> None:
    assert MemoryGrowth().check(profile).state is State.NOT_APPLICABLE
