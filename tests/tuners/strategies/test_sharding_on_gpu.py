"""What needs an accelerator, in a group of one process: offloading, and updates within backward by NCCL."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from sharded_training import BATCH, DATA, a_model, a_workload
from torch import nn
from torch._C._distributed_c10d import HashStore
from torch.utils.data import Subset

from advisor.tuners.place import HERE, Place
from advisor.tuners.strategies.fsdp import Fsdp
from advisor.tuners.strategies.zero import Zero
from advisor.tuners.strategy import Strategy
from advisor.tuners.trial.loop import train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A group of one process, on the first device."""
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", store=HashStore(), rank=0, world_size=1)
    monkeypatch.setattr(HERE, "place", Place(device="cuda:0"))
    monkeypatch.setattr(HERE, "among_workers", dist.group.WORLD)
    yield
    dist.destroy_process_group()


def learnt(strategy: Strategy | None, steps: int, **changes: Any) -> dict[str, torch.Tensor]:
    """Parameters after so many steps."""
    torch.manual_seed(0)
    model = a_model()
    train(a_workload(model=lambda: model, **changes), "cuda:0", steps, strategy)
    return {name: _whole(parameter).cpu() for name, parameter in model.named_parameters()}


def _whole(parameter: nn.Parameter) -> torch.Tensor:
    value: Any = parameter.detach()
    whole: torch.Tensor = value.cuda().full_tensor() if hasattr(value, "full_tensor") else value
    return whole


@pytest.mark.usefixtures("one_gpu")
@pytest.mark.parametrize("offload", ["off", "on"])
def test_fsdp_learns_what_one_process_does(offload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HERE, "config", {"fsdp_offload": offload, "fsdp_wrap": "blocks"})
    strategy = Fsdp()
    ours = learnt(strategy, 20, clip_norm=0.05)
    torch.testing.assert_close(ours, learnt(None, 20, clip_norm=0.05), rtol=1e-4, atol=1e-6)
    assert strategy.report()["optimizer_state_bytes"] > strategy.report()["parameter_bytes"]


@pytest.mark.usefixtures("one_gpu")
def test_offloaded_parts_are_kept_by_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HERE, "config", {"fsdp_offload": "on"})
    model = a_model()
    train(a_workload(model=lambda: model), "cuda:0", 1, Fsdp())
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}


@pytest.mark.usefixtures("one_gpu")
def test_updates_within_backward_begin_with_the_third_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HERE, "config", {"overlap_with_ddp": "on"})
    later = Subset(DATA, [(2 * BATCH + index) % len(DATA) for index in range(len(DATA))])
    alone = learnt(None, 20, dataset=lambda: later)
    torch.testing.assert_close(learnt(Zero(), 22), alone, rtol=1e-4, atol=1e-6)
