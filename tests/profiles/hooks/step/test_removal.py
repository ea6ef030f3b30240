"""Whatever the taps replace is put back, exactly."""

import copy
import inspect
import pickle
import random
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer, optimizer
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from advisor.profiles.events import Run
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.watch import Watch

PLACES: list[tuple[Any, str]] = [
    (torch, "save"), (torch.serialization, "save"), (torch, "manual_seed"), (torch.random, "manual_seed"),
    (torch.cuda, "manual_seed_all"), (random, "seed"), (torch.autograd, "backward"), (torch.autograd, "grad"),
    (torch.amp.GradScaler, "scale"), (torch.amp.GradScaler, "step"), (Optimizer, "__init__"),
    (Optimizer, "zero_grad"), (DataLoader, "__init__"), (DataLoader, "__iter__"),
    (_BaseDataLoaderIter, "__next__"), (nn.Module, "__call__"), (torch, "compile"),
    (torch.autocast, "__enter__"),
]  # fmt: skip


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, inputs: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        output: torch.Tensor = self.layer(inputs) * scale
        return output


class Inherited(Net):
    """Has no forward of its own."""


def a_watch(**options: Any) -> tuple[Watch, list[Step]]:
    steps: list[Step] = []
    return Watch(Run({}, {}), Clock(steps.append), **options), steps


def train(model: nn.Module, steps: int = 3) -> None:
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for (batch,) in DataLoader(TensorDataset(torch.ones(4 * steps, 4)), batch_size=4):
        model(batch).mean().backward()
        sgd.step()
        sgd.zero_grad()


def state() -> list[Any]:
    return [
        *(vars(owner).get(name) for owner, name in PLACES),
        Net.__dict__["forward"], "forward" in Inherited.__dict__,
        dict(optimizer._global_optimizer_pre_hooks), dict(optimizer._global_optimizer_post_hooks),
        torch.get_num_threads(),
    ]  # fmt: skip


def test_removing_puts_back_everything_that_was_replaced() -> None:
    before = state()
    watch, steps = a_watch(seed_offset=3)
    watch.install()
    train(Net())
    train(Inherited())
    during = state()
    watch.remove()
    assert during != before and state() == before
    assert len(steps) == 3  # the second optimizer is not the one that closes steps


def test_what_another_tool_has_put_over_a_tap_stays() -> None:
    before = torch.save
    watch, _ = a_watch()
    watch.install()
    ours = torch.save

    def theirs(*args: Any, **kwargs: Any) -> None:
        ours(*args, **kwargs)

    try:
        torch.save = theirs
        watch.remove()
        assert vars(torch)["save"] is theirs
    finally:
        torch.save = before


def test_removing_before_any_step_puts_back_everything() -> None:
    before = state()
    watch, _ = a_watch()
    watch.install()
    assert vars(nn.Module)["__call__"] is not before[PLACES.index((nn.Module, "__call__"))]
    watch.remove()
    assert state() == before


def test_a_removed_watch_counts_nothing_more() -> None:
    watch, steps = a_watch()
    watch.install()
    model = Net()
    train(model)
    watch.remove()
    train(model)
    assert len(steps) == 3 and len(watch.losses()) == 3


def test_a_forward_on_the_instance_is_wrapped_there_and_put_back() -> None:
    model = Net()
    own = model.forward
    model.forward = own  # type: ignore[method-assign]  # as accelerate does
    watch, steps = a_watch()
    watch.install()
    train(model)
    assert model.__dict__["forward"] is not own
    assert str(inspect.signature(model.forward)) == str(inspect.signature(own))
    twin = copy.deepcopy(model)
    assert twin.__dict__["forward"].__self__ is twin
    assert pickle.loads(pickle.dumps(model)).layer.weight.equal(model.layer.weight)
    watch.remove()
    assert model.__dict__["forward"] is own
    assert "forward" in steps[-1].phases_ns


def test_losses_that_are_not_finite_are_kept() -> None:
    watch, _ = a_watch(loss_limit=2)
    watch.install()
    model = Net()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for extra in (0.0, float("inf"), 0.0):
        (model(torch.ones(2, 4)).mean() + extra).backward()
        sgd.step()
    watch.remove()
    losses = watch.losses()
    assert len(losses) == 2 and losses[1] == float("inf")


def test_gradients_of_gradients_are_noticed() -> None:
    watch, _ = a_watch()
    watch.install()
    try:
        leaf = torch.ones(2, requires_grad=True)
        (slope,) = torch.autograd.grad((leaf**3).sum(), leaf, create_graph=True)
        torch.autograd.backward(slope.sum())
        assert watch._losses.own_transforms
    finally:
        watch.remove()


def test_a_dropped_model_gives_its_memory_back() -> None:
    import gc
    import weakref

    watch, _ = a_watch()
    watch.install()
    model = Net()
    alive = weakref.ref(model)
    model(torch.ones(2, 4)).mean().backward()
    del model
    gc.collect()
    watch.remove()
    assert alive() is None
