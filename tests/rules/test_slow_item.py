from typing import Any

import pytest
from builders import a_loader, a_machine, a_profile, a_share

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import HotSpot, Location
from advisor.profiles.facts.profile import LoaderFacts, Profile
from advisor.profiles.facts.replayed import Replays
from advisor.rules.slow_collate import SlowCollate
from advisor.rules.slow_item import SlowItem, in_ms
from advisor.rules.slow_storage import SlowStorage


def a_slow_loader(**facts: Any) -> LoaderFacts:
    """Items that compute for 1 ms each, 32 of them in a step that trains for 6 ms."""
    return a_loader(**{"item_ms": 1.0, "collate_ms": 0.5, "cpu_share": 1.0, "item_read_bytes": 0, **facts})


def check(loader: LoaderFacts, wait_ms: float = 4.0, **facts: Any) -> Finding:
    return SlowItem().check(a_profile(phases_ms={"input_wait": wait_ms}, loader=loader, **facts))


def test_items_that_outlast_the_step_are_named_with_the_line_that_is_slow() -> None:
    line = Location("data.py", 12, "decode")
    finding = check(a_slow_loader(slow_line=line))
    assert finding.title == "40 % of each step waits for items that take 1 ms each"
    assert finding.ceiling is not None
    assert (finding.ceiling.share, finding.ceiling.source) == (0.4, "timeline")
    assert finding.severity is Severity.HIGH
    assert finding.location == line
    assert "`decode` at data.py:12 once, offline" in finding.advice


def test_a_file_that_may_be_the_same_for_all_items_is_read_once() -> None:
    line = Location("data.py", 12, "__getitem__")
    met = (HotSpot("input_wait", line, 0.8, call="np.load"),)
    advice = check(a_slow_loader(slow_line=line), hotspots=met).advice
    assert "`np.load` gives the same for all items" in advice and 'mmap_mode="r"' in advice
    other = check(a_slow_loader(slow_line=line), hotspots=(HotSpot("input_wait", line, 0.8, call="resize"),))
    assert "constructor" not in other.advice


def test_the_replayed_step_is_the_ceiling_where_there_is_one() -> None:
    finding = check(a_slow_loader(), replays=Replays(loader_free=a_share(0.3)))
    assert finding.ceiling is not None
    assert (finding.ceiling.share, finding.ceiling.source) == (0.3, "replay")


def test_a_loader_that_hardly_lets_wait_is_left_alone() -> None:
    assert check(a_slow_loader(), wait_ms=0.4).state is State.PASSED


def test_items_that_one_worker_could_make_beside_the_step_pass() -> None:
    assert check(a_slow_loader(item_ms=0.18)).state is State.PASSED  # 5.8 ms of items, 6 ms of training
    assert check(a_slow_loader(item_ms=0.19)).fired


@pytest.mark.parametrize(("dataset", "how"), [("Rows", "__getitems__"), ("TensorDataset", "BatchSampler(")])
def test_items_of_microseconds_are_taken_with_one_index(dataset: str, how: str) -> None:
    finding = check(a_slow_loader(item_ms=0.02, collate_ms=0.1, batch_size=512, dataset_type=dataset))
    assert finding.fired
    assert how in finding.advice and "offline" not in finding.advice and "workers" not in finding.advice


@pytest.mark.parametrize(
    ("workers", "how"), [(0, "else make batches in `DataLoader(..., num_workers=4)`"), (2, "")]
)
def test_items_of_microseconds_that_are_transformed_are_transformed_once(workers: int, how: str) -> None:
    """An index of many rows would leave the transform out."""
    loader = a_slow_loader(
        item_ms=0.09, collate_ms=0.1, batch_size=256, dataset_type="MNIST", transformed=True,
        num_workers=workers,
    )  # fmt: skip
    advice = check(loader).advice
    assert "Unless the `transform` of `MNIST` is random" in advice and how in advice
    assert "__getitems__" not in advice


def test_every_worker_makes_its_share_of_the_batches() -> None:
    assert check(a_slow_loader(item_ms=0.7, num_workers=4)).state is State.PASSED
    assert check(a_slow_loader(item_ms=0.8, num_workers=4)).fired


def test_items_that_wait_for_something_else_than_files_are_told_to_wait_once() -> None:
    finding = check(a_slow_loader(cpu_share=0.1))
    assert finding.fired
    assert "waits once" in finding.advice and "`__getitems__(self, indices)`" in finding.advice


def test_items_that_wait_are_first_told_to_wait_in_as_many_workers_as_hide_them() -> None:
    advice = check(a_slow_loader(cpu_share=0.1, item_ms=0.6)).advice
    assert "num_workers=4" in advice and advice.index("num_workers") < advice.index("__getitems__")
    assert "num_workers" not in check(a_slow_loader(cpu_share=0.1, item_ms=0.8, num_workers=4)).advice


def test_an_iterable_dataset_waits_once_in_its_iterator() -> None:
    finding = check(a_slow_loader(cpu_share=0.1, iterable=True))
    assert finding.fired and "`__iter__(self)`" in finding.advice


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ({"cpu_share": 0.9, "item_read_bytes": 100_000}, "slow_item"),
        ({"cpu_share": 0.1, "item_read_bytes": 0}, "slow_item"),
        ({"cpu_share": 0.1, "item_read_bytes": 100_000}, "slow_storage"),
        ({"cpu_share": 0.1, "item_read_bytes": None}, "slow_item"),
        ({"cpu_share": None, "item_read_bytes": 100_000}, "slow_item"),
        ({"cpu_share": None, "network_filesystem": "nfs4"}, "slow_storage"),
        ({"cpu_share": 0.9, "network_filesystem": "nfs4"}, "slow_item"),
        ({"collate_ms": 40.0}, "slow_collate"),
        ({"collate_ms": 40.0, "cpu_share": 0.1, "item_read_bytes": 100_000}, "slow_collate"),
    ],
)
def test_one_rule_alone_names_the_cause(facts: dict[str, Any], cause: str) -> None:
    profile = a_profile(phases_ms={"input_wait": 8.0}, loader=a_slow_loader(**facts))
    fired = [rule.id for rule in (SlowItem(), SlowStorage(), SlowCollate()) if rule.check(profile).fired]
    assert fired == [cause]


def test_a_few_items_that_hold_up_the_others_are_named() -> None:
    finding = check(a_slow_loader(item_ms=0.1, item_p99_ms=10.0, num_workers=2))
    assert finding.title == "40 % of each step waits for the slowest items, 10 ms against 0.1 ms"
    assert "in_order=False" in finding.advice and "changes the order" in finding.advice


def test_a_few_slow_items_without_workers_are_prepared_offline() -> None:
    finding = check(a_slow_loader(item_ms=0.1, item_p99_ms=10.0))
    assert finding.fired and "in_order" not in finding.advice


def test_items_less_than_ten_times_slower_than_most_pass() -> None:
    assert check(a_slow_loader(item_ms=0.1, item_p99_ms=0.99)).state is State.PASSED


def test_one_slow_item_such_as_a_first_import_is_no_slow_end() -> None:
    assert check(a_slow_loader(item_ms=0.1, item_p99_ms=500.0)).state is State.PASSED


def test_missing_facts_are_named() -> None:
    assert SlowItem().check(Profile(a_machine())).title == "no steps were recorded"
    assert SlowItem().check(a_profile(phases_ms={"other": 9.0})).state is State.NOT_APPLICABLE
    finding = check(a_loader())
    assert finding.state is State.NOT_APPLICABLE and finding.title.startswith("time of an item")


@pytest.mark.parametrize(
    ("ms", "text"), [(0.0123, "0.012 ms"), (3.21, "3.2 ms"), (9.96, "10 ms"), (1234.0, "1,200 ms")]
)
def test_milliseconds_have_two_digits(ms: float, text: str) -> None:
    assert in_ms(ms) == text


def test_many_fields_of_an_item_are_one_tensor_and_no_work_to_store() -> None:
    advice = check(a_slow_loader(batch_tensors=61)).advice
    assert "one tensor in place of 61 fields" in advice and "offline" not in advice
