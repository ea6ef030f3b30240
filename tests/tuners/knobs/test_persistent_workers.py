from typing import Any

import pytest
import torch
from builders import a_loader, a_profile, a_run
from torch.utils.data import DataLoader, Dataset, TensorDataset, get_worker_info

from advisor.profiles.run import Run
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
