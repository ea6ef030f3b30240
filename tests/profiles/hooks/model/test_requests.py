"""What counts as a request to a trained model, and what acts on it."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

import advisor
from advisor.base.unit import Unit
from advisor.profiles.events import Request, Run
from advisor.profiles.hooks.model.requests import TRAINS, Trains
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.watch import Watch
from advisor.tuners.knob import Knob, Semantics

ROW = torch.ones(1, 4)


class Halved(Knob[str]):
    semantics = Semantics.PRECISION

    def __init__(self) -> None:
        self.seen: list[Request] = []

    def serve(
        self, function: Callable[..., Any], root: nn.Module, request: Request, value: str
    ) -> Callable[..., Any]:
        self.seen.append(request)
        return lambda *args: function(*args) / 2


@contextmanager
def watched(run: Run | None = None, *, between: bool = False) -> Iterator[tuple[list[Step], Watch]]:
    steps: list[Step] = []
    clock = Clock(steps.append, unit=Unit.REQUEST)
    watch = Watch(run or Run({}, {}), clock, unit=Unit.REQUEST, between=between)
    watch.install()
    try:
        yield steps, watch
    finally:
        watch.remove()


def test_each_outermost_forward_is_a_request_and_a_module_without_parameters_is_none() -> None:
    model, soft = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), nn.Softmax(-1)
    with watched() as (steps, _), torch.no_grad():
        for _ in range(12):
            soft(model(ROW))
    assert [step.kind for step in steps] == ["request"] * 12
    assert steps[-1].root_samples == 1 and "forward" in steps[-1].phases_ns and not steps[-1].flags


def test_frozen_weights_and_training_mode_are_requests_too_and_are_noted() -> None:
    model = nn.Linear(4, 4).requires_grad_(False)
    with watched() as (steps, watch):
        model(ROW)
        facts = watch.requests.facts()
    assert len(steps) == 1
    assert facts == {
        "requests_in_training_mode": True, "requests_mode": "grad", "requests_whole": False,
    }  # fmt: skip


def test_marked_requests_count_alone() -> None:
    first, second = nn.Linear(4, 4).eval(), nn.Linear(4, 2).eval()
    with watched() as (steps, _), torch.no_grad():
        for _ in range(3):
            with advisor.request():
                second(first(ROW))
        first(ROW)
    assert len(steps) == 3
    with advisor.request():  # nobody watches
        first(ROW)
    assert len(steps) == 3


@pytest.mark.parametrize(("between", "counts"), [(False, False), (True, True)])
def test_time_between_requests_counts_where_it_is_asked_for(between: bool, counts: bool) -> None:
    now = [0]
    clock_steps: list[Step] = []
    clock = Clock(clock_steps.append, unit=Unit.REQUEST, wall_ns=lambda: now[0])
    watch = Watch(Run({}, {}), clock, unit=Unit.REQUEST, between=between)
    watch.install()
    try:
        for _ in range(2):
            now[0] += 1000  # the program prepares its input
            with advisor.request():
                now[0] += 7
    finally:
        watch.remove()
    assert clock_steps[-1].wall_ns == (1007 if counts else 7)


def test_a_program_that_takes_optimizer_steps_is_refused() -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched():
        model(ROW).sum().backward()
        with pytest.raises(Trains, match=TRAINS):
            optimizer.step()


def test_a_knob_may_replace_what_answers_once_and_is_told_the_first_inputs(tmp_path: Any) -> None:
    knob, model = Halved(), nn.Linear(4, 1).eval()
    run = Run({"halved": knob}, {"halved": "off"})
    run.configure({"halved": "on"})
    run.serving.folder = tmp_path / "artefacts"
    with torch.no_grad():
        plain = model(ROW)
        with watched(run):
            halved = [model(ROW) for _ in range(2)]
        assert torch.equal(model(ROW), plain)
    assert all(torch.equal(each, plain / 2) for each in halved)
    (request,) = knob.seen
    assert request.args[0] is ROW and request.folder.is_dir() and run.applied == {"halved"}


def test_generation_is_one_request_however_often_the_model_runs() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_embd=16, n_head=2, vocab_size=20)
    model = transformers.GPT2LMHeadModel(config).eval()
    heard: list[Any] = []
    with watched() as (steps, watch):
        watch.requests.listener = lambda kind, args, kwargs, output: heard.append(output)
        for _ in range(2):
            model.generate(torch.tensor([[1, 2]]), max_new_tokens=3, do_sample=False, pad_token_id=0)
    assert len(steps) == 2
    assert [tuple(output.shape) for output in heard] == [(1, 5), (1, 5)]


class Repeating(nn.Module):
    """Generates by a method of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, row: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.layer(row)
        return output

    @torch.no_grad()
    def generate(self, row: torch.Tensor, times: int) -> torch.Tensor:
        """Apply the model to its own output."""
        for _ in range(times):
            row = self(row)
        return row


class Repeated(Repeating):
    """Inherits it."""


class Streaming(Repeating):
    """Gives one row after the other, while its caller goes on."""

    def generate(self, row: torch.Tensor, times: int) -> Iterator[torch.Tensor]:  # type: ignore[override]
        for _ in range(times):
            row = self(row)
            yield row


@pytest.mark.parametrize("kind", [Repeating, Repeated])
def test_generation_by_a_method_of_the_model_is_one_request_from_the_first_on(kind: type[Repeating]) -> None:
    own, heard = Repeating.generate, []
    with watched() as (steps, watch):
        model = kind().eval()
        watch.requests.listener = lambda kind, args, kwargs, output: heard.append(output)
        for _ in range(3):
            model.generate(ROW, times=4)
        assert len(steps) == 3
        asked = watch.requests.asks[kind.__qualname__](ROW, times=4)
        assert torch.equal(asked, heard[0])
    assert Repeating.generate is own
    model.generate(ROW, 2)
    assert len(steps) == 4


def test_rows_that_are_given_one_by_one_are_requests_of_their_own() -> None:
    with watched() as (steps, _), torch.no_grad():
        assert len(list(Streaming().eval().generate(ROW, 5))) == 5
    assert len(steps) == 5


def test_a_model_that_is_restored_with_its_class_generates_in_one_request(tmp_path: Any) -> None:
    torch.save(Repeating().eval(), tmp_path / "model.pt")
    with watched() as (steps, _):
        model = torch.load(tmp_path / "model.pt", weights_only=False)
        model.generate(ROW, 5)
    assert len(steps) == 1


def test_models_of_torchscript_answer_requests() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(model)
        forms = torch.jit.trace(model, ROW), scripted, torch.jit.freeze(scripted)
    for form in forms:
        with watched() as (steps, _), torch.no_grad():
            answers = [form(ROW) for _ in range(10)]
        assert len(steps) == 10 and torch.equal(answers[-1], model(ROW))
