"""A training program whose objects all exist before it is watched, and everything that watching replaces."""

import builtins
import gc
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from advisor.runs.in_process import LoopProfile

OWNERS: list[tuple[Any, str]] = [
    (torch, "save"), (torch, "compile"), (torch.autograd, "backward"), (torch.autograd, "grad"),
    (torch.amp.GradScaler, "step"), (torch.autocast, "__enter__"), (Optimizer, "__init__"),
    (Optimizer, "zero_grad"), (DataLoader, "__init__"), (DataLoader, "__iter__"),
    (_BaseDataLoaderIter, "__next__"), (nn.Module, "__call__"), (nn.Module, "zero_grad"),
    (torch.Tensor, "item"), (torch.Tensor, "to"), (torch.cuda, "synchronize"), (builtins, "print"),
    (logging.Logger, "handle"),
]  # fmt: skip


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.drop(self.layer(inputs))
        return output


class Program:
    """A training program whose objects all exist before anything is profiled."""

    def __init__(self, samples: int = 400, **loader: Any) -> None:
        torch.manual_seed(0)
        self.model: nn.Module = Net()
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(TensorDataset(torch.randn(samples, 4)), **{"batch_size": 4, **loader})
        self.losses: list[float] = []

    def step(self, batch: torch.Tensor) -> None:
        loss = self.model(batch).pow(2).mean()
        loss.backward()
        self.sgd.step()
        self.sgd.zero_grad()
        self.losses.append(loss.item())

    def train(self, p: LoopProfile, steps: int, each: Callable[[int], None] = lambda step: None) -> None:
        for step, (batch,) in zip(range(steps), self.loader, strict=False):
            self.step(batch)
            p.step()
            each(step)


def state() -> list[Any]:
    """Everything that watching replaces, as it is now."""
    return [
        *(vars(owner).get(name) for owner, name in OWNERS),
        Net.__dict__["forward"], list(sys.meta_path), list(gc.callbacks), sys.getswitchinterval(),
        dict(torch_optimizer._global_optimizer_pre_hooks), torch.get_num_threads(), dict(os.environ),
        dict(torch_optimizer._global_optimizer_post_hooks), sys.gettrace(), sys.getprofile(),
        torch._C._autograd._profiler_enabled(), torch._C._len_torch_function_stack(),
    ]  # fmt: skip


def a_torch_profiler() -> torch.profiler.profile:
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=False)
