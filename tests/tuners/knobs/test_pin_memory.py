from typing import Any

import pytest
import torch
from builders import a_gpu_profile, a_loader, a_profile, a_rich_profile
from torch.utils.data import DataLoader, TensorDataset

from advisor.tuners.knob import Change, Refused
from advisor.tuners.knobs.pin_memory import PinMemory


def test_it_is_offered_where_batches_go_to_a_gpu() -> None:
    assert PinMemory().choices(a_gpu_profile()) == ["off", "on"]
    assert PinMemory().choices(a_gpu_profile(loader=a_loader(pin_memory=True))) == ["on", "off"]


def test_on_a_cpu_torch_would_accept_it_silently_so_it_is_refused() -> None:
    with pytest.raises(Refused, match="runs on the CPU"):
        PinMemory().choices(a_rich_profile())
    with pytest.raises(Refused, match="runs on the CPU"):
        PinMemory().check("on", a_rich_profile())


def test_without_a_loader_there_are_no_batches_to_pin() -> None:
    with pytest.raises(Refused, match="no DataLoader"):
        PinMemory().choices(a_profile(device="cuda:0"))


def test_it_can_be_taken_away_everywhere() -> None:
    arguments: dict[str, Any] = {"dataset": TensorDataset(torch.zeros(4, 1)), "pin_memory": True}
    PinMemory().loader(arguments, "off")
    assert DataLoader(**arguments).pin_memory is False


@pytest.mark.skipif(torch.accelerator.is_available(), reason="needs a machine without accelerator")
def test_a_process_without_accelerator_refuses() -> None:
    with pytest.raises(Refused, match="no accelerator"):
        PinMemory().loader({"dataset": [1]}, "on")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_batches_are_pinned() -> None:
    arguments: dict[str, Any] = {"dataset": TensorDataset(torch.zeros(4, 1))}
    PinMemory().loader(arguments, "on")
    assert next(iter(DataLoader(**arguments)))[0].is_pinned()


def test_what_the_user_writes() -> None:
    assert PinMemory().change("on") == Change("DataLoader(..., pin_memory=True)")
