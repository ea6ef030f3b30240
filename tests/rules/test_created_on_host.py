from typing import Any

from builders import a_device, a_gpu_profile, a_rich_profile, a_window

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
from advisor.rules.created_on_host import CreatedOnHost


def a_run_with(**device: Any) -> Profile:
    return a_gpu_profile(window=a_window(device=a_device(**device)))


def test_filling_on_the_host_and_copying_is_reported() -> None:
    line = Location("model.py", 14)
    finding = CreatedOnHost().check(a_run_with(fill_copies=3.0, fill_copy_ms=0.8, fill_location=line))
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.WASTE
    assert finding.severity is Severity.LOW
    assert finding.ceiling is not None and finding.ceiling.share == 0.08
    assert finding.location == line
    assert finding.advice.startswith("Create the tensor on the device at model.py:14")
    assert finding.evidence == {"fill_copy_ms": 0.8, "copies_per_step": 3.0}


def test_a_small_tensor_now_and_then_passes_with_its_share() -> None:
    finding = CreatedOnHost().check(a_run_with(fill_copies=1.0, fill_copy_ms=0.2))
    assert finding.state is State.PASSED and finding.title.startswith("2.0 %")


def test_no_such_copy_passes() -> None:
    assert CreatedOnHost().check(a_run_with()).title.startswith("0.0 %")


def test_without_a_device_timeline_it_abstains() -> None:
    assert CreatedOnHost().check(a_rich_profile(window=a_window())).state is State.NOT_APPLICABLE
