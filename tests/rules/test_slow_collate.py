from typing import Any

import pytest
from builders import a_loader, a_profile, a_share

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.profile import LoaderFacts
from advisor.profiles.facts.replayed import Replays
from advisor.rules.slow_collate import SlowCollate


def check(loader: LoaderFacts, wait_ms: float = 4.0, **facts: Any) -> Finding:
    return SlowCollate().check(a_profile(phases_ms={"input_wait": wait_ms}, loader=loader, **facts))


def a_collating_loader(**facts: Any) -> LoaderFacts:
    """A batch takes 1.6 ms to fetch and 2.4 ms to join."""
    return a_loader(**{"item_ms": 0.05, "collate_ms": 2.4, **facts})


def test_collating_is_named_with_its_part_of_the_wait() -> None:
    finding = check(a_collating_loader())
    assert (
        finding.title == "24 % of each step waits for collating: 60 % of making a batch is collating (2.4 ms)"
    )
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.24)
    assert finding.severity is Severity.HIGH
    assert "def __getitems__(self, indices)" in finding.advice


def test_the_replayed_wait_bounds_the_part_of_collating() -> None:
    finding = check(a_collating_loader(), replays=Replays(loader_free=a_share(0.2)))
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.12)
    assert finding.ceiling.source == "timeline"
    assert finding.severity is Severity.LOW


def test_below_thirty_percent_it_passes_with_the_number() -> None:
    finding = check(a_loader(item_ms=0.1, collate_ms=1.3))
    assert finding.state is State.PASSED
    assert finding.title == "29 % of making a batch is collating (1.3 ms)"
    assert check(a_loader(item_ms=0.1, collate_ms=1.4)).fired


def test_a_loader_that_hardly_lets_wait_is_left_alone() -> None:
    assert check(a_collating_loader(), wait_ms=0.4).state is State.PASSED


def test_rows_of_several_lengths_are_joined_in_one_operation() -> None:
    assert "pad_sequence" in check(a_collating_loader(shapes_vary=True)).advice


def test_a_wait_that_making_batches_does_not_explain_is_no_matter_of_collating() -> None:
    assert check(a_collating_loader(num_workers=4), wait_ms=3.0).state is State.PASSED
    assert check(a_collating_loader(num_workers=4), wait_ms=1.5).fired


def test_passing_batches_between_processes_is_another_matter() -> None:
    assert check(a_collating_loader(num_workers=1, transport_ms=5.0)).state is State.PASSED


def test_missing_facts_are_named() -> None:
    assert SlowCollate().check(a_profile(phases_ms={"other": 9.0})).state is State.NOT_APPLICABLE
    assert check(a_loader(item_ms=1.0)).title.startswith("time of collating")


def test_items_and_joining_that_take_no_time_pass() -> None:
    assert check(a_loader(item_ms=0.0, collate_ms=0.0)).state is State.PASSED


def test_many_fields_of_an_item_are_joined_before_anything_is_stacked() -> None:
    advice = check(a_collating_loader(batch_tensors=201)).advice
    assert "one tensor in place of 201 fields" in advice and "__getitems__" not in advice
    assert "__getitems__" in check(a_collating_loader(batch_tensors=3)).advice
    assert "201 fields" in check(a_collating_loader(batch_tensors=201, shapes_vary=True)).advice
