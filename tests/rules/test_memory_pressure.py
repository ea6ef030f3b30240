from typing import Any

import pytest
from builders import a_gpu_profile, a_machine, a_rich_profile

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import MemoryUse
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.rules.memory_pressure import MemoryPressure

GIB = 2**30


def on_gpu(peak_gib: float, **facts: Any) -> Profile:
    memory = MemoryUse(
        host_peak_bytes=GIB, device_peak_bytes=int(peak_gib * GIB), device_total_bytes=100 * GIB, **facts
    )
    return a_gpu_profile(memory=memory)


def on_host(share: float) -> Profile:
    return a_rich_profile(memory=MemoryUse(host_peak_bytes=GIB, host_used_share=share))


@pytest.mark.parametrize(
    ("profile", "severity"),
    [
        (on_gpu(91), Severity.MEDIUM),
        (on_gpu(97.5), Severity.HIGH),
        (on_gpu(50, allocation_retries=2), Severity.HIGH),
        (on_host(0.81), Severity.MEDIUM),
        (on_host(0.98), Severity.HIGH),
    ],
    ids=["device", "device full", "retries", "host", "host full"],
)
def test_memory_that_is_nearly_full_is_a_risk(profile: Profile, severity: Severity) -> None:
    finding = MemoryPressure().check(profile)
    assert finding.state is State.DIAGNOSTIC and finding.kind is Kind.RISK
    assert finding.severity is severity
    assert finding.ceiling is None, "it claims no time"


def test_the_title_says_which_memory_and_how_much() -> None:
    assert MemoryPressure().check(on_gpu(91)).title.startswith("91 % of device memory")
    assert MemoryPressure().check(on_host(0.85)).title.startswith("85 % of host memory")
    retried = MemoryPressure().check(on_gpu(50, allocation_retries=2))
    assert retried.title.startswith("2 times the allocator ran out")


@pytest.mark.parametrize("profile", [on_gpu(90), on_host(0.80)], ids=["device", "host"])
def test_at_the_threshold_it_passes_with_its_share(profile: Profile) -> None:
    finding = MemoryPressure().check(profile)
    assert finding.state is State.PASSED and "% of memory" in finding.title


def test_activations_are_recomputed_where_they_are_most() -> None:
    finding = MemoryPressure().check(on_gpu(95, activation_bytes=60 * GIB, parameter_bytes=10 * GIB))
    assert "checkpoint(block, x, use_reentrant=False)" in finding.advice and "twice" in finding.advice


def test_otherwise_the_batch_is_split() -> None:
    finding = MemoryPressure().check(on_gpu(95, activation_bytes=5 * GIB, optimizer_bytes=60 * GIB))
    assert finding.advice.startswith("Halve `batch_size`")


def test_a_program_with_autocast_is_not_told_to_try_it() -> None:
    profile = on_gpu(95)
    assert "amp" in MemoryPressure().check(profile).knobs
    own = a_gpu_profile(memory=profile.memory, run=RunFacts(own_autocast=True))
    assert "amp" not in MemoryPressure().check(own).knobs


def test_without_a_share_in_use_the_peak_is_held_against_the_limit() -> None:
    memory = MemoryUse(host_peak_bytes=15 * GIB)
    profile = a_rich_profile(a_machine(memory_bytes=16 * GIB), memory=memory)
    assert MemoryPressure().check(profile).title.startswith("94 % of host memory")


def test_without_its_facts_it_abstains() -> None:
    nothing = a_rich_profile(a_machine(memory_bytes=0), memory=MemoryUse(host_peak_bytes=0))
    assert MemoryPressure().check(nothing).state is State.NOT_APPLICABLE
