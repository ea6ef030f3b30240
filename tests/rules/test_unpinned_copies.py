from typing import Any

import pytest
from builders import a_device, a_gpu_profile, a_loader, a_machine, a_rich_profile, a_window

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.profile import LoaderFacts, Profile
from advisor.profiles.facts.recorded import Copies
from advisor.rules.unpinned_copies import UnpinnedCopies


def check(loader: LoaderFacts | None = None, **facts: Any) -> Finding:
    """A copy of 2 MiB from pageable memory takes 1.5 of the 10 ms of a step."""
    defaults = {"direction": "h2d", "count": 1.0, "ms": 1.5, "bytes": 2.0**21, "pageable": 1.0}
    device = a_device(copies=(Copies(**{**defaults, **facts}),))
    return UnpinnedCopies().check(a_gpu_profile(window=a_window(device=device), loader=loader))


def test_batches_from_pageable_memory_are_to_be_pinned() -> None:
    finding = check(a_loader())
    assert finding.title == "15 % of each step copies to the device from pageable memory"
    assert finding.severity is Severity.MEDIUM
    assert "pin_memory=True" in finding.advice and "non_blocking=True" in finding.advice
    assert finding.evidence["mib_per_step"] == 2.0


def test_only_time_that_compute_does_not_cover_can_go() -> None:
    finding = check(a_loader(), overlapped=0.5)
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.075)
    assert check(a_loader(), overlapped=1.0).state is State.PASSED


def test_below_five_percent_it_passes_with_the_number() -> None:
    finding = check(ms=0.49)
    assert finding.state is State.PASSED
    assert finding.title == "4.9 % of each step copies to the device from pageable memory"
    assert check(ms=0.51).fired


def test_pinned_batches_pass() -> None:
    assert check(a_loader(pin_memory=True), pageable=0.0).state is State.PASSED


def test_what_is_copied_beside_pinned_batches_is_to_be_pinned_too() -> None:
    assert "x.pin_memory()" in check(a_loader(pin_memory=True)).advice


def test_a_step_without_copies_passes() -> None:
    profile = a_gpu_profile(window=a_window(device=a_device()))
    assert UnpinnedCopies().check(profile).title == "0 copies to the device"


@pytest.mark.parametrize("profile", [Profile(a_machine()), a_rich_profile(window=a_window())])
def test_without_a_device_nothing_is_said(profile: Profile) -> None:
    assert UnpinnedCopies().check(profile).title == "device timeline: needs a GPU"


def test_a_trace_that_does_not_name_the_memory_is_not_judged() -> None:
    assert check(pageable=None).state is State.NOT_APPLICABLE
