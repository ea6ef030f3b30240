from typing import Any

import pytest
from builders import a_gpu_profile, a_machine, a_profile

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import MemoryUse
from advisor.profiles.facts.profile import Profile
from advisor.rules.page_fault_bound import PageFaultBound


def faulting(system: float | None, faults: float | None) -> MemoryUse:
    return MemoryUse(1, system_share=system, minor_faults_per_step=faults)


def stepping(memory: MemoryUse, **facts: Any) -> Profile:
    return a_profile(phases_ms={"forward": 9.0}, memory=memory, **facts)


def test_system_time_with_many_faults_asks_for_another_allocator() -> None:
    finding = PageFaultBound().check(stepping(faulting(0.3, 5000.0)))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.3)
    assert (finding.ceiling.source, finding.severity) == ("model", Severity.MEDIUM)
    assert finding.title == "30 % of CPU time in the system, with 5,000 page faults per step"
    assert "LD_PRELOAD" in finding.advice and finding.knobs == ("malloc",)


def test_a_moderate_share_of_system_time_stays_low_until_tested() -> None:
    assert PageFaultBound().check(stepping(faulting(0.15, 5000.0))).severity is Severity.LOW


def test_each_fault_counts_two_microseconds_at_most() -> None:
    finding = PageFaultBound().check(stepping(faulting(0.9, 1000.0)))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.2)


def test_system_time_that_faults_cannot_explain_is_not_counted() -> None:
    finding = PageFaultBound().check(stepping(faulting(0.3, 10.0)))  # 0.02 ms at most in a step of 10
    assert finding.state is State.PASSED


@pytest.mark.parametrize(("system", "faults"), [(0.09, 5000.0), (0.3, 0.9)])
def test_little_system_time_or_no_faults_pass(system: float, faults: float) -> None:
    assert PageFaultBound().check(stepping(faulting(system, faults))).state is State.PASSED


@pytest.mark.parametrize(
    "profile",
    [
        Profile(a_machine()),
        a_gpu_profile(memory=faulting(0.3, 5000.0)),
        stepping(faulting(None, 5000.0)),
        stepping(faulting(0.3, None)),
        a_profile(memory=faulting(0.3, 5000.0)),
    ],
    ids=["nothing", "gpu", "system time", "faults", "no steps"],
)
def test_without_the_facts_nothing_is_said(profile: Profile) -> None:
    assert PageFaultBound().check(profile).state is State.NOT_APPLICABLE
