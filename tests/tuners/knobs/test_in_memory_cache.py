from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from builders import a_loader, a_machine, a_profile, a_rich_profile, a_run
from small_training import losses_of
from torch.utils.data import DataLoader, Dataset, IterableDataset

from advisor.profiles.events import Run
from advisor.profiles.facts.machine import Machine
from advisor.profiles.facts.profile import MemoryUse, Profile, RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.in_memory_cache import InMemoryCache
from advisor.tuners.mechanisms.cached_items import CachedItems

LENGTH = 16
PERSISTENT = {"num_workers": 1, "persistent_workers": True}


class Rows(Dataset[torch.Tensor]):
    """Rows of numbers; readings are counted, those of worker processes too."""

    def __init__(self) -> None:
        self.rows = torch.arange(4.0 * LENGTH).reshape(LENGTH, 4) / 64
        self.reads = torch.zeros(LENGTH, dtype=torch.int64).share_memory_()
        self.scale = 1.0

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        self.reads[index] += 1
        return self.rows[index] * self.scale


class Drawing(Rows):
    def __getitem__(self, index: int) -> torch.Tensor:
        return self.rows[index] + torch.rand(4)


class Vast(Rows):
    def __len__(self) -> int:
        return 2**50

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(4)


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(4)


def switched_on() -> Run:
    run = a_run(in_memory_cache=InMemoryCache())
    run.configure({"in_memory_cache": "memory"})
    return run


def refusal(dataset: Any, **arguments: Any) -> str:
    run = switched_on()
    bound = {"dataset": dataset, **arguments}
    run.loader(bound)
    assert bound == {"dataset": dataset, **arguments}
    return run.refused["in_memory_cache"]


@pytest.mark.parametrize("loader", [{}, PERSISTENT], ids=["no workers", "a worker"])
def test_the_losses_stay_the_same_bit_by_bit_and_items_are_read_once(loader: dict[str, Any]) -> None:
    plain, cached, run = Rows(), Rows(), switched_on()
    assert losses_of(run, cached, **loader) == losses_of(None, plain, **loader)
    assert run.applied == {"in_memory_cache"} and run.refused == {}
    assert plain.reads.tolist() == [3] * LENGTH
    assert cached.reads[1:-1].tolist() == [1] * (LENGTH - 2)  # the first and the last are looked at


def test_a_loader_gets_a_dataset_that_keeps_its_items() -> None:
    rows = Rows()
    arguments: dict[str, Any] = {"dataset": rows, "batch_size": 4}
    InMemoryCache().loader(arguments, "memory")
    assert type(arguments["dataset"]) is CachedItems
    assert isinstance(DataLoader(**arguments).dataset, Rows)


def test_a_second_loader_over_it_wraps_it_no_second_time() -> None:
    arguments: dict[str, Any] = {"dataset": Rows()}
    knob = InMemoryCache()
    knob.loader(arguments, "memory")
    first = arguments["dataset"]
    knob.loader(arguments, "memory")
    assert arguments["dataset"] is first


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        (Stream(), "iterable dataset has no items"),
        (Drawing(), "random numbers"),
        (Vast(), "free memory may be used"),
        ([object(), object()], "cannot be compared"),
    ],
)
def test_what_cannot_be_kept_is_answered_with_the_reason(dataset: Any, reason: str) -> None:
    assert reason in refusal(dataset)


def test_workers_that_end_with_the_epoch_keep_nothing_for_the_next() -> None:
    assert "needs persistent_workers" in refusal(Rows(), num_workers=2)


def test_a_program_that_changes_its_items_is_refused_and_gets_the_new_ones() -> None:
    rows, run = Rows(), switched_on()
    arguments: dict[str, Any] = {"dataset": rows, "batch_size": LENGTH}
    run.loader(arguments)
    loader = DataLoader(**arguments)
    assert torch.equal(next(run.batches(iter(loader))), rows.rows)
    assert run.refused == {}
    rows.scale = 2.0
    assert torch.equal(next(run.batches(iter(loader))), 2 * rows.rows)
    assert "changes its items" in run.refused["in_memory_cache"]


def test_other_iterators_are_left_alone() -> None:
    iterator = iter([1, 2])
    assert switched_on().batches(iterator) is iterator


def test_it_is_offered_where_items_fit() -> None:
    assert InMemoryCache().choices(a_rich_profile()) == ["off", "memory"]


EPOCHS = RunFacts(samples_per_step=4.0, sample_source="loader")  # of 25 steps


def read_over_and_over(
    machine: Machine | None = None, run: RunFacts | None = EPOCHS, **facts: Any
) -> Profile:
    loader = a_loader(dataset_length=100, batch_size=4, batch_bytes=40)
    return a_profile(machine, phases_ms={"input_wait": 2.0}, loader=loader, run=run, **facts)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (None, "how many steps an epoch has is not known"),
        (replace(EPOCHS, steps_total=49), "49 steps are less than two epochs"),
        (replace(EPOCHS, steps_total=500, launch_steps=49), "49 steps are less than two epochs"),
    ],
)
def test_a_run_in_which_no_second_epoch_is_measured_is_refused(run: RunFacts | None, reason: str) -> None:
    with pytest.raises(Refused, match=f"items kept in one epoch help the next, and {reason}"):
        InMemoryCache().check("memory", read_over_and_over(run=run))


def test_two_epochs_are_enough() -> None:
    InMemoryCache().check("memory", read_over_and_over(run=replace(EPOCHS, steps_total=50)))


def test_a_long_epoch_is_waited_for_only_if_a_user_names_the_value() -> None:
    profile = read_over_and_over()
    loader = a_loader(dataset_length=10**6, batch_size=4, batch_bytes=40)
    long = replace(profile, loader=loader, machine=a_machine(memory_bytes=2**30))
    with pytest.raises(
        Refused, match=r"would wait for one, 2500 s; `--knob in_memory_cache=memory` tries it"
    ):
        InMemoryCache().choices(long)
    InMemoryCache().check("memory", long)


@pytest.mark.parametrize(
    ("machine", "fits"),
    [
        ({"memory_bytes": 1500}, True),
        ({"memory_bytes": 1200}, False),
        ({"memory_bytes": 2**30, "available_bytes": 1200}, False),
    ],
)
def test_all_items_must_fit_into_free_memory(machine: dict[str, int], fits: bool) -> None:
    profile = read_over_and_over(a_machine(**machine))
    if fits:
        assert InMemoryCache().choices(profile) == ["off", "memory"]
    else:
        with pytest.raises(Refused, match="100 items of"):
            InMemoryCache().choices(profile)


def test_each_worker_keeps_its_own_items() -> None:
    loader = a_loader(dataset_length=100, batch_size=4, batch_bytes=40, num_workers=2)
    with pytest.raises(Refused, match="in each of 2 processes"):
        InMemoryCache().choices(a_profile(a_machine(memory_bytes=2000), loader=loader))


def test_what_the_program_uses_already_is_not_free() -> None:
    loader = a_loader(dataset_length=100, batch_size=4, batch_bytes=40)
    profile = a_profile(a_machine(memory_bytes=2000), loader=loader, memory=MemoryUse(host_peak_bytes=1000))
    with pytest.raises(Refused, match="free memory may be used"):
        InMemoryCache().choices(profile)


@pytest.mark.parametrize(
    ("facts", "reason"), [({"iterable": True}, "iterable dataset"), ({"dataset_length": None}, "no length")]
)
def test_datasets_without_items_to_count_are_refused(facts: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        InMemoryCache().check("memory", a_profile(loader=a_loader(**facts)))


def test_without_a_loader_there_are_no_items() -> None:
    with pytest.raises(Refused, match="no DataLoader"):
        InMemoryCache().choices(a_profile())


def test_what_the_user_writes_reads_each_item_once() -> None:
    rows = Rows()
    names: dict[str, Any] = {"dataset": rows}
    exec(InMemoryCache().change("memory").snippet, names)
    for _ in range(2):
        batch = next(iter(DataLoader(names["dataset"], batch_size=LENGTH)))
        assert torch.equal(batch, rows.rows)
    assert rows.reads.tolist() == [1] * LENGTH
