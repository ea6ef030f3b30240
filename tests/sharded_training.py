"""Small programs for strategies: the same batches and weights in every process, no dropout, no batch norm."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ranks import Told
from torch import nn
from torch._C._distributed_c10d import HashStore
from torch.utils.data import TensorDataset

from advisor.tuners.place import HERE, Place
from advisor.workloads.workload import Workload

STEPS = 50
BATCH = 16
INPUTS = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
DATA = TensorDataset(INPUTS, torch.tanh(INPUTS[:, :1] - 0.5 * INPUTS[:, 1:2]))


class Block(nn.Module):
    """A residual block of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(12, 24)
        self.narrow = nn.Linear(24, 12)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = inputs + self.narrow(torch.tanh(self.wide(inputs)))
        return output


def a_model() -> nn.Module:
    """1,321 parameters, in two repeated blocks and what is around them; no layer is divisible by chance."""
    return nn.Sequential(nn.Linear(6, 12), nn.Sequential(Block(), Block()), nn.Linear(12, 1))


def adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=3e-3, weight_decay=0.1)


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.02, momentum=0.9)


def a_workload(**changes: Any) -> Workload:
    """AdamW on a mean squared error, batches in order."""
    facts: dict[str, Any] = {
        "model": a_model, "dataset": lambda: DATA, "loss": nn.functional.mse_loss, "optimizer": adamw,
        "batch_size": BATCH, "shuffle": False,
    }  # fmt: skip
    return Workload(**{**facts, **changes})


def clipped_and_accumulated() -> Workload:
    """Updates of two micro-batches each, clipped at a norm that is often exceeded."""
    return a_workload(accumulation=2, clip_norm=0.05)


def with_momentum() -> Workload:
    return a_workload(optimizer=sgd)


@contextmanager
def first_of(workers: int) -> Iterator[None]:
    """This process stands as the first of so many, in a group of its own: it waits for nobody."""
    place, config, group = HERE.place, HERE.config, HERE.among_workers
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    HERE.place, HERE.config, HERE.among_workers = Place(workers=workers), {}, dist.group.WORLD
    try:
        yield
    finally:
        HERE.place, HERE.config, HERE.among_workers = place, config, group
        dist.destroy_process_group()


def whole_losses(told: Sequence[Told]) -> list[float]:
    """The loss of every whole batch: the mean over the workers, which hold equal shares."""
    return [sum(losses) / len(told) for losses in zip(*(each.losses for each in told), strict=True)]


def assert_alike(told: Sequence[Told], single: Told, *, rel: float = 1e-4) -> None:
    """All workers learnt what one process did."""
    assert whole_losses(told) == pytest.approx(single.losses, rel=rel)
    for each in told:
        assert each.parameters.keys() == single.parameters.keys()
        for name, values in single.parameters.items():
            assert each.parameters[name] == pytest.approx(values, rel=rel, abs=rel / 10), name
