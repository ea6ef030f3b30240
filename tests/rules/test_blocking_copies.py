from typing import Any

import pytest
from builders import a_device, a_gpu_profile, a_loader, a_machine, a_rich_profile, a_window

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import Location, SyncPoint
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import Copies
from advisor.rules.blocking_copies import BlockingCopies


def a_copy(direction: str = "h2d", ms: float = 0.5, **facts: Any) -> Copies:
    """One pinned, synchronous copy of 1 MiB."""
    defaults = {"pageable": 0.0, "synchronous": 1.0, "largest_synchronous_bytes": 2**20}
    return Copies(direction, 1.0, ms, 2.0**20, **{**defaults, **facts})


def check(*copies: Copies, **facts: Any) -> Finding:
    window = a_window(device=a_device(copies=copies))
    return BlockingCopies().check(a_gpu_profile(**{"window": window, "loader": a_loader(), **facts}))


def test_a_large_copy_that_the_host_waits_for_is_reported() -> None:
    finding = check(a_copy(ms=1.2))
    assert finding.title == "12 % of each step is copies to the device that nothing overlaps"
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.12)
    assert finding.severity is Severity.MEDIUM
    assert "non_blocking=True" in finding.advice


def test_small_copies_that_the_host_waits_for_pass() -> None:
    copies = a_copy(ms=0.05, largest_synchronous_bytes=2**16)
    finding = check(copies)
    assert finding.state is State.PASSED
    assert finding.title == "0.5 % of each step copies between host and device, none blocks"
    larger = a_copy(ms=0.5, largest_synchronous_bytes=2**16 + 1)
    assert check(larger).fired


def test_long_copies_that_compute_does_not_cover_need_a_side_stream() -> None:
    finding = check(a_copy(synchronous=0.0, largest_synchronous_bytes=0, overlapped=0.4))
    assert finding.fired and "torch.cuda.stream(side)" in finding.advice
    covered = a_copy(synchronous=0.0, largest_synchronous_bytes=0, overlapped=0.6)
    assert check(covered).state is State.PASSED


def test_a_large_share_is_reported_even_where_half_is_covered() -> None:
    finding = check(a_copy(ms=1.0, synchronous=0.0, largest_synchronous_bytes=0, overlapped=0.6))
    assert finding.fired and finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.04)


def test_pageable_copies_are_another_matter() -> None:
    assert check(a_copy(ms=2.0, pageable=1.0)).state is State.PASSED


def test_results_read_from_the_device_name_the_line_that_reads() -> None:
    line = Location("train.py", 40)
    syncs = (
        SyncPoint("cpu", Location("train.py", 8), 1.0, blocked_ms=0.1),
        SyncPoint("cpu", line, 1.0, blocked_ms=2.0),
        SyncPoint("item", Location("adam.py", 1), 1.0, blocked_ms=9.0, where="optimizer"),
    )
    finding = check(a_copy("d2h", ms=0.8), syncs=syncs)
    assert finding.location == line
    assert "to the host" in finding.title and "pinned memory" in finding.advice


def test_copies_within_the_device_are_no_copies_of_the_host() -> None:
    assert check(a_copy("d2d", ms=5.0)).state is State.PASSED


def test_filling_device_memory_counts_where_the_host_waits() -> None:
    assert "device memory" in check(a_copy("memset")).title
    assert check(a_copy("memset", synchronous=0.0)).state is State.PASSED


def test_both_directions_are_counted_together() -> None:
    finding = check(a_copy(ms=0.6), a_copy("d2h", ms=0.9))
    assert finding.title == "15 % of each step is copies to the device and to the host that nothing overlaps"
    assert set(finding.evidence) == {"h2d", "d2h"}


@pytest.mark.parametrize("profile", [Profile(a_machine()), a_rich_profile(window=a_window())])
def test_without_a_device_nothing_is_said(profile: Profile) -> None:
    assert BlockingCopies().check(profile).title == "device timeline: needs a GPU"
