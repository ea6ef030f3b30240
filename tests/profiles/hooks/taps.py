"""The taps of a training process, wired to each other, for programs written inside a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import RunFacts
from advisor.profiles.hooks.model.roots import Roots
from advisor.profiles.hooks.omission import (
    Anomalies,
    Backwards,
    Graphs,
    Omissions,
    Reductions,
    Updates,
)
from advisor.profiles.hooks.optimizer.losses import Losses
from advisor.profiles.hooks.optimizer.numerics import nonfinite_facts
from advisor.profiles.hooks.optimizer.optimizers import Optimizers
from advisor.profiles.hooks.patches import Scope
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.step.saves import Saves
from advisor.profiles.hooks.surroundings.debugging import Debugging
from advisor.profiles.hooks.surroundings.garbage import Garbage
from advisor.profiles.hooks.surroundings.memory import MemoryWatch


class Taps:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        run = Run({}, {})
        self.clock = clock = Clock(self.steps.append)
        self.scope = scope = Scope()
        self.roots = Roots(run, clock, scope)
        self.losses = Losses(run, clock, scope, self.roots.settle, lambda: None, limit=64)
        self.optimizers = Optimizers(run, clock, scope, self.roots.own, self._updated)
        self.losses.scaler.attach(self.optimizers)
        self.saves = Saves(run, clock, scope, self.roots.evaluations)
        self.debugging = Debugging(clock, scope)
        self.losses.sampled = self.debugging.look
        self.garbage = Garbage(clock, scope)
        self.memory = MemoryWatch(clock, self.parameters, lambda: self.optimizers.known)
        self.omissions = Omissions()
        reductions = Reductions(self.roots.modules)
        self.omissions.offer("optimizer", Updates(self.optimizers))
        self.omissions.offer("backward", Backwards(self.losses, self.optimizers, reductions))
        self.omissions.offer("communication", reductions)
        self.omissions.offer("debug", Anomalies(lambda: self.debugging.anomaly_seen))
        self.omissions.offer("graph", Graphs())

    @property
    def all(self) -> list[Any]:
        return [self.roots, self.losses, self.optimizers, self.saves, self.debugging, self.garbage]

    def parameters(self) -> list[torch.Tensor]:
        return [parameter for module in self.roots.modules() for parameter in module.parameters()]

    def run_facts(self) -> RunFacts:
        parts = (self.roots.evaluations, self.saves, self.debugging, self.garbage)
        facts = {name: value for part in parts for name, value in part.facts().items()}
        facts |= self.losses.scaler.facts(self.roots.autocast_types)
        return RunFacts(**facts, **nonfinite_facts(self.losses, self.optimizers, self.roots))

    def inspect(self, on: bool) -> None:
        self.roots.inspect(on)
        self.memory.inspect(on)
        self.losses.inspect(on)
        self.optimizers.inspect(on)

    def _updated(self, optimizer: torch.optim.Optimizer) -> bool:
        self.roots.settle()
        self.losses.close(optimizer)
        return not self.losses.recording


@contextmanager
def watching() -> Iterator[Taps]:
    taps = Taps()
    taps.scope.enter()
    for tap in taps.all:
        tap.install()
    try:
        yield taps
    finally:
        taps.omissions.omit(None)
        taps.scope.active = False
        for tap in reversed(taps.all):
            tap.remove()


class Program:
    """A model, an optimizer, and a step that returns the loss."""

    def __init__(self, model: nn.Module | None = None, *, lr: float = 0.1) -> None:
        torch.manual_seed(0)
        self.model = model or nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.inputs = torch.ones(2, 4)

    def step(self) -> float:
        self.optimizer.zero_grad()
        loss = self.model(self.inputs).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def weights(self) -> list[torch.Tensor]:
        return [parameter.detach().clone() for parameter in self.model.parameters()]


def equal(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(left, right, strict=True))
