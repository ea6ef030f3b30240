from typing import Any

import pytest
from builders import a_loader, a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.profile import LoaderFacts, RunFacts
from advisor.rules.cold_cache import ColdCache


def a_warmed_loader(*waits_ms: float, **facts: Any) -> LoaderFacts:
    return a_loader(epoch_wait_ms=waits_ms, dataset_length=32_000, item_read_bytes=2**16, **facts)


def check(loader: LoaderFacts, steps: int | None = 10_000) -> Finding:
    return ColdCache().check(a_profile(phases_ms={}, loader=loader, run=RunFacts(steps_total=steps)))


def test_a_slow_first_epoch_is_a_share_of_the_planned_run() -> None:
    finding = check(a_warmed_loader(16.0, 1.0, 1.0))  # 15 ms more in 1000 batches, of 100 s
    assert finding.title == "15 % of the planned run is the first epoch's longer wait (15 s)"
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.15)
    assert finding.ceiling.of == "run"
    assert finding.severity is Severity.MEDIUM
    assert "memory" in finding.advice


def test_in_a_long_run_it_passes_with_the_number() -> None:
    finding = check(a_warmed_loader(16.0, 1.0), steps=1_000_000)
    assert finding.state is State.PASSED and finding.title.startswith("0.1 %")


def test_a_first_epoch_less_than_twice_as_slow_passes() -> None:
    assert check(a_warmed_loader(15.9, 8.0)).state is State.PASSED
    assert check(a_warmed_loader(16.0, 8.0)).fired


def test_less_than_a_second_is_a_start_like_any_other() -> None:
    assert check(a_warmed_loader(1.9, 1.0), steps=50).state is State.PASSED


def test_data_that_no_file_holds_have_no_cache() -> None:
    loader = a_loader(epoch_wait_ms=(16.0, 1.0), dataset_length=32_000, item_read_bytes=0)
    assert check(loader).state is State.PASSED


def test_without_a_planned_length_the_seconds_are_told() -> None:
    finding = check(a_warmed_loader(16.0, 1.0), steps=None)
    assert finding.state is State.NOT_APPLICABLE
    assert "15 s" in finding.title and "--steps-planned" in finding.title


def test_missing_facts_are_named() -> None:
    assert check(a_warmed_loader(16.0)).title.startswith("two complete epochs")
    unsized = a_loader(epoch_wait_ms=(16.0, 1.0), dataset_length=None)
    assert check(unsized).title.startswith("batches per epoch")
