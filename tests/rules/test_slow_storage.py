from typing import Any

import pytest
from builders import a_loader, a_profile, a_share

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.profile import LoaderFacts
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.replayed import Replays
from advisor.rules.slow_storage import SlowStorage


def a_reading_loader(**facts: Any) -> LoaderFacts:
    """Items that wait for files during 80 % of their 0.2 ms."""
    defaults = {"item_ms": 0.2, "collate_ms": 0.1, "cpu_share": 0.2, "item_read_bytes": 2**17}
    return a_loader(**{**defaults, **facts})


def check(loader: LoaderFacts, wait_ms: float = 5.0, **facts: Any) -> Finding:
    return SlowStorage().check(a_profile(phases_ms={"input_wait": wait_ms}, loader=loader, **facts))


def test_items_that_wait_while_reading_files_name_the_storage() -> None:
    finding = check(a_reading_loader(), rates=Rates(storage_read=100 * 2.0**20))
    assert finding.title == "40 % of each step waits for storage"
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.4)
    assert finding.severity is Severity.HIGH
    assert "num_workers=4" in finding.advice
    assert finding.evidence["read_mib_per_item"] == 0.125
    assert finding.evidence["storage_mib_per_s"] == 100.0


def test_an_iterable_dataset_gets_one_worker_that_reads_ahead() -> None:
    assert "num_workers=1)" in check(a_reading_loader(iterable=True)).advice


def test_with_workers_already_files_are_to_be_larger() -> None:
    assert "few large files" in check(a_reading_loader(num_workers=2)).advice


def test_data_on_a_network_file_system_are_to_be_copied() -> None:
    finding = check(a_reading_loader(network_filesystem="nfs4"))
    assert finding.title == "40 % of each step waits for storage on nfs4"
    assert "local disk" in finding.advice


def test_a_network_that_was_fast_when_items_were_timed_still_explains_the_wait() -> None:
    quick = a_reading_loader(item_ms=0.02, cpu_share=1.0, network_filesystem="nfs4")
    finding = check(quick)
    assert finding.fired and finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.5 - 0.074)  # less 0.74 ms of making in 10 ms
    local = a_reading_loader(item_ms=0.02, cpu_share=1.0)
    assert check(local).state is State.PASSED


def test_the_replayed_wait_is_what_can_go() -> None:
    finding = check(a_reading_loader(), replays=Replays(loader_free=a_share(0.02)))
    assert finding.state is State.PASSED


def test_items_that_compute_half_of_their_time_pass() -> None:
    finding = check(a_reading_loader(cpu_share=0.5))
    assert finding.state is State.PASSED
    assert finding.title == "0.2 ms to make an item, 50 % of it waiting"
    assert check(a_reading_loader(cpu_share=0.49)).fired


def test_items_that_read_nothing_pass() -> None:
    finding = check(a_reading_loader(item_read_bytes=0))
    assert finding.title == "0 bytes per item are read from files"
    assert finding.state is State.PASSED


def test_a_loader_that_hardly_lets_wait_is_left_alone() -> None:
    assert check(a_reading_loader(network_filesystem="nfs4"), wait_ms=0.4).state is State.PASSED


def test_joining_that_takes_longer_than_the_items_is_another_matter() -> None:
    assert check(a_reading_loader(collate_ms=8.0)).state is State.PASSED


@pytest.mark.parametrize(
    ("facts", "missing"),
    [
        ({"item_ms": None}, "time of an item"),
        ({"item_read_bytes": None}, "bytes read per item"),
        ({"cpu_share": None}, "CPU share of an item's time"),
    ],
)
def test_missing_facts_are_named(facts: dict[str, Any], missing: str) -> None:
    finding = check(a_reading_loader(**facts))
    assert finding.state is State.NOT_APPLICABLE and finding.title.startswith(missing)


def test_without_steps_or_a_loader_nothing_is_said() -> None:
    assert SlowStorage().check(a_profile(phases_ms={"other": 9.0})).state is State.NOT_APPLICABLE
