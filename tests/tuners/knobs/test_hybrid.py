"""A traced child in an eager root, in models that train."""

import copy
from typing import Any

import pytest
import torch
from builders import a_run
from torch import nn

from advisor.profiles.events import Run
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.watch import Watch
from advisor.tuners.knobs.execution import Execution

INPUTS = torch.linspace(-1, 1, 64).reshape(16, 4)


class Deciding(nn.Module):
    """A part that branches on values; no trace can hold it."""

    def __init__(self, width: int = 2) -> None:
        super().__init__()
        self.layer = nn.Linear(8, width)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.layer(inputs)
        return output * 2 if output.sum() > 0 else output


class Detector(nn.Module):
    """A backbone of layers, then a head that decides by values."""

    def __init__(self, head: nn.Module | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = head or Deciding()
        self.backbone = nn.Sequential(
            nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.25), nn.Linear(16, 8)
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.head(self.backbone(inputs))
        return output


def a_hybrid_run() -> Run:
    run = a_run(execution=Execution())
    run.configure({"execution": "jit_hybrid"})
    return run


def trained(model: nn.Module, run: Run | None = None, steps: int = 5) -> list[float]:
    """Losses of a few updates, watched where there is a run."""
    watch = Watch(run, Clock(lambda step: None)) if run is not None else None
    if watch is not None:
        watch.install()
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(INPUTS).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if watch is not None:
        watch.remove()
    return losses


def calls_of_layers(model: Detector, function: Any) -> int:
    """How often Python calls the first layer of the backbone in one forward."""
    calls: list[int] = []
    hook = model.backbone[0].register_forward_hook(lambda *_: calls.append(1))
    function(INPUTS)
    hook.remove()
    return len(calls)


def test_it_trains_like_the_model_as_it_is() -> None:
    run, model, twin = a_hybrid_run(), Detector(), Detector()
    assert trained(model, run) == pytest.approx(trained(twin), rel=1e-5)
    for ours, own in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, own)
    assert (run.unanswered(), run.refused, run.applied) == ([], {}, {"execution"})


def test_the_backbone_runs_as_a_trace_and_the_head_as_python() -> None:
    run, model = a_hybrid_run(), Detector()
    function = run.call(model.forward, model)
    function(INPUTS)
    assert calls_of_layers(model, function) == 0
    outputs = [function(sign * INPUTS) for sign in (1.0, -1.0)]
    assert all(output.requires_grad for output in outputs)
    model.eval()
    assert calls_of_layers(model, function) == 1


def test_gradients_off_in_training_run_no_trace_and_give_nothing_up() -> None:
    run, model = a_hybrid_run(), Detector()
    function = run.call(model.forward, model)
    with torch.no_grad():
        run.output(model, function(INPUTS))
    run.output(model, function(INPUTS))
    assert (run.refused, calls_of_layers(model, function)) == ({}, 0)


def test_the_largest_child_that_can_be_traced_is_taken() -> None:
    run, model = a_hybrid_run(), Detector(head=Deciding(width=300))
    function = run.call(model.forward, model)
    for _ in range(2):
        run.output(model, function(INPUTS))
    assert (run.refused, calls_of_layers(model, function)) == ({}, 0)


class OnlyDeciding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(4, 4)])
        self.first = Deciding(8)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.first(torch.cat([inputs, self.parts[0](inputs)], 1))
        return output


def test_where_no_child_can_be_traced_the_reason_is_said() -> None:
    run, model, twin = a_hybrid_run(), OnlyDeciding(), OnlyDeciding()
    twin.load_state_dict(model.state_dict())
    assert trained(model, run) == trained(twin)
    assert run.refused["execution"].startswith("no child can be traced: Deciding: torch.jit.trace: ")


def test_a_model_without_parts_is_refused_at_once() -> None:
    run, model = a_hybrid_run(), nn.Linear(4, 4)
    assert run.call(model.forward, model) == model.forward
    assert "try jit_trace" in run.refused["execution"]


def test_the_program_copies_a_model_of_its_own() -> None:
    run, model = a_hybrid_run(), Detector()
    run.call(model.forward, model)(INPUTS)
    assert "forward" not in vars(model.backbone)
    assert "forward" not in vars(copy.deepcopy(model).backbone)
