from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from builders import a_loader, a_profile, a_run
from small_training import ROWS, losses_of, watched
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, get_worker_info

from advisor.profiles.events import Run
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.persistent_workers import PersistentWorkers

DATA = TensorDataset(torch.zeros(4, 1))


class ProcessIds(Dataset[int]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        import os

        assert get_worker_info() is not None
        return os.getpid()


@pytest.mark.parametrize(("value", "processes"), [("on", 1), ("off", 2)])
def test_workers_live_on_to_the_second_epoch_or_do_not(value: str, processes: int) -> None:
    arguments: dict[str, Any] = {"dataset": ProcessIds(), "num_workers": 1}
    PersistentWorkers().loader(arguments, value)
    loader = DataLoader(**arguments)
    seen = {int(process) for _ in range(2) for process in loader}
    assert len(seen) == processes


def test_without_workers_nothing_is_done() -> None:
    arguments: dict[str, Any] = {"dataset": DATA, "num_workers": 0}
    PersistentWorkers().loader(arguments, "on")
    assert arguments == {"dataset": DATA, "num_workers": 0}


def test_the_programs_own_setting_comes_first() -> None:
    assert PersistentWorkers().choices(a_profile(loader=a_loader(persistent_workers=True))) == ["on", "off"]


def a_new_loader_per_epoch(pinned: bool) -> Run:
    """Three epochs, each with a loader of its own; its iterator is marked as one whose batches are pinned."""
    run = a_run(persistent_workers=PersistentWorkers())
    run.configure({"persistent_workers": "on"})
    for _ in range(3):
        arguments: dict[str, Any] = {"dataset": DATA, "num_workers": 1}
        run.loader(arguments)
        iterator: Any = iter(DataLoader(**arguments))
        iterator._pin_memory = pinned
        seen = run.batches(iterator)
        iterator._pin_memory = False
        assert seen is iterator
    return run


def test_a_loader_per_epoch_with_pinned_memory_is_refused() -> None:
    assert (
        "builds a new loader for every epoch"
        in a_new_loader_per_epoch(pinned=True).refused["persistent_workers"]
    )


def test_a_loader_per_epoch_without_pinned_memory_is_not() -> None:
    assert a_new_loader_per_epoch(pinned=False).refused == {}


def test_without_a_loader_there_are_no_workers() -> None:
    with pytest.raises(Refused, match="no DataLoader"):
        PersistentWorkers().choices(a_profile())


STALE = "which workers that live on would not see"
SCALE = [1.0]


class Rows(Dataset[torch.Tensor]):
    """Rows with noise; what else they depend on is the test's."""

    def __init__(self) -> None:
        self.epoch = 0
        self.readings = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        self.readings += 1
        noise = torch.rand(4) + float(np.random.rand())
        return SCALE[0] * noise + self.epoch


class OwnNoise(Rows):
    def __init__(self) -> None:
        super().__init__()
        self.own = np.random.default_rng(0)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), self.own.random())


class Caching(Rows):
    """Keeps what was read once, as many do; only workers read here, but for those who look at items."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = dict[int, torch.Tensor]()

    def __getitem__(self, index: int) -> torch.Tensor:
        if index not in self.cache:
            self.cache[index] = super().__getitem__(index)
        return self.cache[index]


class Unreadable(Rows):
    def __getitem__(self, index: int) -> torch.Tensor:
        assert get_worker_info() is not None
        return torch.zeros(4)


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from torch.zeros(8, 4)


def refused_after(dataset: Dataset[Any], change: Callable[[Any], Any], *, epochs: int = 3) -> str | None:
    """Train for some epochs with workers that live on, and ``change`` the dataset before the last."""
    run = a_run(persistent_workers=PersistentWorkers())
    run.configure({"persistent_workers": "on"})
    with watched(run) as watch:
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(dataset, batch_size=4, num_workers=1)
        for epoch in range(epochs):
            if epoch == epochs - 1:
                assert run.refused == {} and run.applied == {"persistent_workers"}
                change(dataset)
            for batch in loader:
                model(batch).mean().backward()
                optimizer.step()
        assert len(watch.losses()) == 2 * epochs
    assert run.unanswered() == []
    return run.refused.get("persistent_workers")


def test_a_dataset_that_is_told_the_epoch_is_refused() -> None:
    assert refused_after(Rows(), lambda rows: rows.set_epoch(1)) == (
        f"the program changes dataset.epoch between epochs, {STALE}"
    )


def test_a_dataset_inside_another_one_is_looked_at_too() -> None:
    rows = Rows()
    assert STALE in str(refused_after(Subset(rows, range(8)), lambda _: rows.set_epoch(1)))
    assert rows.readings == 0


def test_items_that_change_without_an_attribute_are_refused_though_they_draw_random_numbers() -> None:
    said = refused_after(Rows(), lambda rows: SCALE.__setitem__(0, 2.0))
    SCALE[0] = 1.0
    assert said == f"the program changes the items of its dataset between epochs, {STALE}"


@pytest.mark.parametrize(
    "dataset", [Rows(), OwnNoise(), Caching(), Unreadable(), Stream()], ids=lambda each: type(each).__name__
)
def test_what_stays_as_it_is_or_cannot_be_compared_is_left_alone(dataset: Dataset[Any]) -> None:
    assert refused_after(dataset, id, epochs=4) is None


def test_looking_draws_no_random_numbers() -> None:
    losses = []
    either: tuple[dict[str, Any], ...] = ({"persistent_workers": PersistentWorkers()}, {})
    for knob in either:
        run = a_run(**knob)
        run.configure({"persistent_workers": "on"} if knob else {})
        losses.append(losses_of(run, ROWS, num_workers=1, persistent_workers=True))
    assert losses[0] == losses[1]


def test_a_dataset_that_was_seen_to_change_is_refused_before_any_trial() -> None:
    changing = a_profile(loader=a_loader(dataset_changes="dataset.epoch"))
    for ask in (PersistentWorkers().choices, lambda profile: PersistentWorkers().check("on", profile)):
        with pytest.raises(Refused, match=f"changes dataset.epoch between epochs, {STALE}"):
            ask(changing)


def test_a_program_that_keeps_its_workers_all_the_same_may_stop_that() -> None:
    kept = a_profile(loader=a_loader(dataset_changes="dataset.epoch", persistent_workers=True))
    assert PersistentWorkers().choices(kept) == ["on", "off"]
