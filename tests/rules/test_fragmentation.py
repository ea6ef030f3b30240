from typing import Any

import pytest
from builders import a_gpu_profile, a_loader, a_rich_profile

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import MemoryUse
from advisor.profiles.facts.profile import Profile
from advisor.rules.fragmentation import Fragmentation

GIB = 2**30


def a_run_with(allocated_gib: float, reserved_gib: float, retries: int = 0, **facts: Any) -> Profile:
    memory = MemoryUse(
        host_peak_bytes=GIB,
        device_peak_bytes=int(allocated_gib * GIB),
        device_reserved_bytes=int(reserved_gib * GIB),
        device_total_bytes=100 * GIB,
        allocation_retries=retries,
    )
    return a_gpu_profile(memory=memory, **facts)


def test_twice_the_memory_reserved_is_a_risk() -> None:
    finding = Fragmentation().check(a_run_with(20, 40, loader=a_loader(shapes_vary=True)))
    assert finding.state is State.DIAGNOSTIC and finding.kind is Kind.RISK
    assert finding.severity is Severity.MEDIUM
    assert finding.title.startswith("20 % of device memory is reserved beyond")
    assert "PYTORCH_ALLOC_CONF=expandable_segments:True" in finding.advice
    assert finding.evidence["batch_shapes_vary"] is True
    assert finding.knobs == ("alloc_conf",)


@pytest.mark.parametrize(
    ("allocated", "reserved"), [(20.1, 40), (10, 29.9)], ids=["ratio", "share of the device"]
)
def test_just_below_either_threshold_it_passes(allocated: float, reserved: float) -> None:
    assert Fragmentation().check(a_run_with(allocated, reserved)).state is State.PASSED


def test_a_failed_allocation_with_memory_to_spare_is_fragmentation() -> None:
    finding = Fragmentation().check(a_run_with(70, 98, retries=3))
    assert finding.state is State.DIAGNOSTIC and finding.title.startswith("3 allocations failed")


def test_a_failed_allocation_on_a_full_device_is_pressure() -> None:
    assert Fragmentation().check(a_run_with(95, 98, retries=3)).state is State.PASSED


def test_without_a_gpu_or_its_allocator_it_abstains() -> None:
    on_cpu = a_rich_profile(memory=MemoryUse(host_peak_bytes=GIB))
    assert Fragmentation().check(on_cpu).state is State.NOT_APPLICABLE
    unknown = MemoryUse(host_peak_bytes=GIB, device_peak_bytes=GIB, device_total_bytes=100 * GIB)
    assert Fragmentation().check(a_gpu_profile(memory=unknown)).state is State.NOT_APPLICABLE


def test_at_both_thresholds_it_is_reported() -> None:
    assert Fragmentation().check(a_run_with(15, 30)).fired
