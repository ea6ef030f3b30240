from typing import Any

from builders import a_loader, a_profile, a_share

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.profile import LoaderFacts
from advisor.profiles.facts.replayed import Replays
from advisor.rules.workers_on_memory_data import WorkersOnMemoryData


def a_memory_loader(**facts: Any) -> LoaderFacts:
    """Batches that take 0.42 ms to make and 1.5 ms to pass."""
    defaults = {"num_workers": 2, "item_ms": 0.01, "collate_ms": 0.1, "transport_ms": 1.5}
    return a_loader(**{**defaults, **facts})


def check(loader: LoaderFacts, wait_ms: float = 2.5, **facts: Any) -> Finding:
    return WorkersOnMemoryData().check(a_profile(phases_ms={"input_wait": wait_ms}, loader=loader, **facts))


def test_batches_that_cost_more_to_pass_than_to_make_need_no_workers() -> None:
    finding = check(a_memory_loader())
    assert finding.title == (
        "25 % of each step waits for workers: 0.42 ms to make a batch, 1.5 ms to pass it on"
    )
    assert finding.severity is Severity.HIGH
    assert "num_workers=0" in finding.advice


def test_the_replayed_wait_is_the_ceiling() -> None:
    little = Replays(loader_free=a_share(0.01))
    assert check(a_memory_loader(), device="cuda:0", replays=little).state is State.PASSED
    assert check(a_memory_loader(), replays=little).fired  # on a CPU nothing else goes on while it waits


def test_a_wait_far_longer_than_passing_a_batch_has_another_cause() -> None:
    finding = check(a_memory_loader(transport_ms=0.5), wait_ms=6.0)
    assert finding.state is State.PASSED and "too little for a wait of 6 ms" in finding.title


def test_batches_that_cost_more_to_make_are_worth_a_worker() -> None:
    assert check(a_memory_loader(transport_ms=0.4)).state is State.PASSED


def test_without_workers_the_step_would_wait_longer_for_such_batches() -> None:
    assert check(a_memory_loader(item_ms=0.1, transport_ms=4.0), wait_ms=3.0).state is State.PASSED


def test_a_loader_that_hardly_lets_wait_is_left_alone() -> None:
    assert check(a_memory_loader(), wait_ms=0.49).state is State.PASSED


def test_without_workers_it_passes() -> None:
    assert check(a_memory_loader(num_workers=0)).title == "0 workers hand over batches"


def test_missing_facts_are_named() -> None:
    assert WorkersOnMemoryData().check(a_profile(phases_ms={"other": 9.0})).state is State.NOT_APPLICABLE
    assert check(a_memory_loader(transport_ms=None)).state is State.NOT_APPLICABLE
    assert check(a_memory_loader(item_ms=None)).state is State.NOT_APPLICABLE
