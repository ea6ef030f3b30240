"""What making a batch costs, found by making some."""

import random
import time
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import default_collate

from advisor.profiles.hooks.loading.batch_look import Outline
from advisor.profiles.hooks.loading.loader_probe import ITEMS, LoaderProbe, Probed, transport_ms
from advisor.profiles.hooks.step.clock import Clock

A_BATCH: Outline = (((4, 8), torch.float32), ((4,), torch.int64))


def probed(dataset: Any, batch_size: int | None = 4, collate: Any = default_collate) -> Probed:
    return LoaderProbe(dataset, collate, batch_size, A_BATCH, Clock(lambda step: None)).run()


class Sleepy:
    """Waits for each item; the last one takes long."""

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.1 if index == 46 else 0.002)
        return torch.ones(8)


def decode() -> int:
    total = 0
    for number in range(20_000):
        total += number
    return total


class Busy(Sleepy):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((8,), decode())


class Read:
    """Reads its items from a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        with self.path.open("rb", buffering=0) as file:
            return torch.frombuffer(bytearray(file.read(10_000)), dtype=torch.uint8)


class Batched:
    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> torch.Tensor:
        raise AssertionError("batches of indices are taken")

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        self.asked.append(indices)
        return [torch.ones(2)] * len(indices)


class InColumns(Batched):
    """Gives all rows that are asked for as two tensors."""

    def __getitems__(self, indices: list[int]) -> Any:
        return torch.ones(len(indices), 2), torch.zeros(len(indices))


class Failing(Sleepy):
    def __getitem__(self, index: int) -> torch.Tensor:
        raise KeyError("items are named")


def test_items_that_wait_take_wall_time_and_no_cpu() -> None:
    found = probed(Sleepy())
    assert found.item_ms is not None and found.cpu_share is not None
    assert 2 <= found.item_ms < 50 and found.cpu_share < 0.5
    assert max(found.items_ms) >= 100 and len(found.items_ms) == ITEMS


def test_items_that_compute_take_cpu_time_at_a_line_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", time.process_time)  # as on a machine with nothing else to do
    found = probed(Busy())
    assert found.cpu_share is not None and found.cpu_share > 0.5
    assert found.slow_line is not None
    assert (found.slow_line.file, found.slow_line.function) == (__file__, "decode")


def test_bytes_read_are_counted_per_item(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(10_000))
    found = probed(Read(path))
    assert found.item_read_bytes == pytest.approx(10_000, rel=0.02)
    assert found.network_filesystem is None


def test_data_in_memory_reads_next_to_nothing() -> None:
    found = probed([torch.ones(8)] * 100)
    assert found.item_read_bytes is not None and found.item_read_bytes < 100


def test_a_dataset_that_takes_batches_of_indices_is_asked_for_those() -> None:
    dataset = Batched()
    found = probed(dataset)
    assert found.item_ms is not None and {len(asked) for asked in dataset.asked[1:]} == {4}


def test_a_batch_that_comes_as_one_tensor_of_each_field_is_joined_as_it_is() -> None:
    joined: list[Any] = []

    def join(batch: Any) -> Any:
        joined.append([each.shape for each in batch])
        return batch

    found = probed(InColumns(), collate=join)
    assert found.item_ms is not None and found.collate_ms is not None
    assert joined == [[(4, 2), (4,)]] * (ITEMS // 4)


def test_collating_is_timed_apart() -> None:
    def slow(items: list[torch.Tensor]) -> Any:
        assert len(items) == 32
        time.sleep(0.01)
        return default_collate(items)

    found = probed([torch.ones(8)] * 10, batch_size=32, collate=slow)
    assert found.collate_ms is not None and found.item_ms is not None
    assert found.collate_ms >= 10 > found.item_ms


@pytest.mark.parametrize(
    "dataset", [Failing(), object(), iter([1]), []], ids=["raises", "", "iterator", "empty"]
)
def test_a_dataset_that_cannot_be_asked_leaves_its_facts_open(dataset: Any) -> None:
    found = probed(dataset)
    assert found.transport_ms is not None
    found.transport_ms = None
    assert found == Probed()


def test_a_collate_that_fails_leaves_the_items_known() -> None:
    def failing(items: Any) -> Any:
        raise TypeError("not these")

    found = probed([torch.ones(8)] * 10, collate=failing)
    assert found.item_ms is not None and found.collate_ms is None


class Noisy(Sleepy):
    def __getitem__(self, index: int) -> Any:
        return torch.rand(2) + random.random() + numpy.random.rand()


def test_random_numbers_go_on_as_if_nothing_had_been_drawn() -> None:
    def drawn() -> tuple[float, float, float]:
        return float(torch.rand(1)), random.random(), float(numpy.random.rand())

    torch.manual_seed(1), random.seed(1), numpy.random.seed(1)
    expected = drawn()
    torch.manual_seed(1), random.seed(1), numpy.random.seed(1)
    assert probed(Noisy()).item_ms is not None
    assert drawn() == expected


def test_passing_a_batch_costs_more_the_larger_it_is() -> None:
    small, large = transport_ms(A_BATCH), transport_ms((((64, 2**18), torch.float32),))
    assert small is not None and large is not None and large > 2 * small > 0


def test_nothing_is_passed_without_tensors_on_the_host() -> None:
    assert transport_ms(()) is None


class Caching(Sleepy):
    def __init__(self) -> None:
        self.known: dict[int, torch.Tensor] = {}

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.known.setdefault(index, torch.ones(8))


class Counting(Sleepy):
    seen = 0

    def __getitem__(self, index: int) -> torch.Tensor:
        self.seen += 1
        return torch.ones(8)


def test_what_items_change_in_the_dataset_is_named_and_a_cache_told_from_a_counter() -> None:
    cached, counted, neither = probed(Caching()), probed(Counting()), probed(Sleepy())
    assert (cached.items_change, cached.items_cached) == ("dataset.known", True)
    assert (counted.items_change, counted.items_cached) == ("dataset.seen", False)
    assert (neither.items_change, neither.items_cached) == (None, False)
