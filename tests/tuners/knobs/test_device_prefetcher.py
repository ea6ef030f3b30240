from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Any

import pytest
import torch
from builders import a_gpu_profile, a_loader, a_profile, a_rich_profile
from small_training import losses_of
from torch.utils.data import DataLoader, TensorDataset

from advisor.profiles.events import Run
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.device_prefetcher import Ahead, DevicePrefetcher, moved

Pair = namedtuple("Pair", ["left", "right"])


class Noting:
    """Copies nothing and notes what is asked of it."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def begin(self, batch: Any) -> Any:
        self.notes.append(f"begin {batch}")
        return batch

    def wait(self, batch: Any) -> None:
        self.notes.append(f"wait {batch}")


class Copying:
    """Copies tensors within the host."""

    def begin(self, batch: Any) -> Any:
        return moved(batch, torch.Tensor.clone)

    def wait(self, batch: Any) -> None:
        """A copy within the host is there at once."""


def test_the_next_batch_is_on_its_way_while_one_is_used() -> None:
    copying = Noting()
    ahead = Ahead(iter("abc"), copying)
    assert copying.notes == []
    assert next(ahead) == "a"
    assert copying.notes == ["begin a", "wait a", "begin b"]
    assert next(ahead) == "b"
    assert copying.notes[3:] == ["wait b", "begin c"]


def test_all_batches_come_in_their_order_and_the_end_stays_the_end() -> None:
    ahead = Ahead(iter("abc"), Noting())
    assert list(ahead) == ["a", "b", "c"]
    assert list(ahead) == []
    assert list(Ahead(iter(""), Noting())) == []


class Failing:
    """The second batch fails; whoever asks again gets the third."""

    def __init__(self) -> None:
        self.asked = 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.asked += 1
        if self.asked == 2:
            raise OSError("item 7 cannot be read")
        if self.asked > 3:
            raise StopIteration
        return self.asked


def test_an_error_is_raised_when_its_batch_is_asked_for_and_the_next_one_follows() -> None:
    ahead = Ahead(Failing(), Noting())
    assert next(ahead) == 1
    with pytest.raises(OSError, match="item 7"):
        next(ahead)
    assert list(ahead) == [3]


def test_a_batch_of_any_form_is_moved_whole() -> None:
    row, others = torch.ones(2), ["text", 3, None, object()]
    batch = {
        "rows": row,
        "inner": [Pair(row, "left"), (row, others)],
        "ordered": OrderedDict(a=row),
        "own": UserDict(b=row),
    }
    there = moved(batch, lambda tensor: tensor.to("meta"))
    flat = [
        there["rows"],
        there["inner"][0].left,
        there["inner"][1][0],
        there["ordered"]["a"],
        there["own"]["b"],
    ]
    assert {tensor.device.type for tensor in flat} == {"meta"}
    kinds = [type(there["inner"][0]), type(there["ordered"]), type(there["own"])]
    assert kinds == [Pair, OrderedDict, UserDict]
    assert there["inner"][0].right == "left" and there["inner"][1][1] == others
    assert batch["rows"] is row and batch["own"]["b"] is row  # type: ignore[index]


class AheadOnTheHost:
    """The knob's iterator under a run, with its copies made on the host."""

    layer = 0

    def prepare(self, config: Any, present: Any) -> None:
        """Nothing depends on other settings."""

    def batches(self, iterator: Iterator[Any], value: Any) -> Iterator[Any]:
        return Ahead(iterator, Copying())


@pytest.mark.parametrize("loader", [{}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}])
def test_the_losses_stay_the_same_bit_by_bit(loader: dict[str, Any]) -> None:
    run = Run({"ahead": AheadOnTheHost()}, {"ahead": "off"})
    run.configure({"ahead": "on"})
    assert losses_of(run, epochs=2, **loader) == losses_of(epochs=2, **loader)
    assert run.applied == {"ahead"}


def test_a_loop_that_breaks_off_finds_the_next_epoch_whole() -> None:
    loader = DataLoader(TensorDataset(torch.arange(4.0)), num_workers=1, persistent_workers=True)
    assert len(list(islice(Ahead(iter(loader), Copying()), 2))) == 2
    assert [float(row) for (row,) in Ahead(iter(loader), Copying())] == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without GPU")
def test_a_process_without_gpu_refuses() -> None:
    with pytest.raises(Refused, match="this process has none"):
        DevicePrefetcher().batches(iter([]), "on")


def test_batches_in_ordinary_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(Refused, match="needs pin_memory"):
        DevicePrefetcher().batches(iter(DataLoader(TensorDataset(torch.ones(2)))), "on")


def test_it_is_offered_where_batches_go_to_a_gpu() -> None:
    assert DevicePrefetcher().choices(a_gpu_profile()) == ["off", "on"]


def test_elsewhere_the_reason_is_said() -> None:
    with pytest.raises(Refused, match="needs an accelerator"):
        DevicePrefetcher().choices(a_rich_profile())
    with pytest.raises(Refused, match="needs an accelerator"):
        DevicePrefetcher().check("on", a_profile(loader=a_loader()))
    with pytest.raises(Refused, match="no DataLoader"):
        DevicePrefetcher().choices(a_profile(device="cuda"))


class Stream:
    """Stands for a CUDA stream on a machine without."""

    def wait_stream(self, other: Any) -> None:
        """What is copied on the host is there at once."""


def test_what_the_user_writes_gives_the_same_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream())
    monkeypatch.setattr(torch.cuda, "stream", lambda side: nullcontext())
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    rows = DataLoader(TensorDataset(torch.arange(6.0)), batch_size=2)
    names: dict[str, Any] = {"loader": rows, "device": "cpu"}
    exec(DevicePrefetcher().change("on").snippet, names)
    assert len(names["loader"]) == 3
    for _ in range(2):
        assert [batch[0].tolist() for batch in names["loader"]] == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_batches_are_there_with_the_same_numbers() -> None:
    rows = torch.randn(64, 1024, 64)
    loader = DataLoader(TensorDataset(rows), batch_size=4, pin_memory=True)
    for seen, (plain,) in zip(DevicePrefetcher().batches(iter(loader), "on"), loader, strict=True):
        assert seen[0].is_cuda
        busy = seen[0] @ seen[0].transpose(1, 2)
        assert torch.equal(seen[0].cpu(), plain)
        assert bool(busy.isfinite().all())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_what_the_user_writes_gives_the_same_numbers() -> None:
    rows = torch.randn(64, 1024)
    plain = DataLoader(TensorDataset(rows), batch_size=4, pin_memory=True)
    names: dict[str, Any] = {"loader": plain, "device": torch.device("cuda")}
    exec(DevicePrefetcher().change("on").snippet, names)
    assert torch.equal(torch.cat([batch[0].cpu() for batch in names["loader"]]), rows)
