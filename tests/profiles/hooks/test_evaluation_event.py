"""The event around forwards in evaluation: which ones have it, and what it leaves alone."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn

from advisor.profiles.hooks.clock import Clock
from advisor.profiles.hooks.watch import Watch
from advisor.profiles.run import Run

INPUTS = torch.ones(2, 4)


class Marking:
    """Notes what is entered and left."""

    layer = 0

    def __init__(self) -> None:
        self.seen: list[str] = []

    def prepare(self, config: Any, present: Any) -> None:
        """Nothing depends on other settings."""

    def evaluation(self, root: Any, value: Any) -> AbstractContextManager[None]:
        return self._around(type(root).__name__)

    @contextmanager
    def _around(self, name: str) -> Iterator[None]:
        self.seen.append(f"enter {name}")
        try:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                yield
        finally:
            self.seen.append(f"leave {name}")


class Failing(nn.Linear):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if not self.training:
            raise LookupError("no evaluation today")
        return super().forward(inputs)


def a_watch(on: bool = True) -> tuple[Watch, Marking]:
    marking = Marking()
    run = Run({"mark": marking}, {"mark": "off"})
    run.configure({"mark": "on"} if on else {})
    return Watch(run, Clock(lambda step: None)), marking


def train(model: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(INPUTS).sum().backward()
    optimizer.step()


def test_a_root_in_evaluation_has_it_and_one_in_training_has_not() -> None:
    watch, marking = a_watch()
    watch.install()
    model = nn.Linear(4, 1)
    train(model)
    assert marking.seen == []
    model.eval()
    assert model(INPUTS).dtype is torch.bfloat16
    model.train()
    with torch.no_grad():
        model(INPUTS)
    watch.remove()
    assert marking.seen == ["enter Linear", "leave Linear"] * 2


def test_a_subscribers_own_autocast_is_not_taken_for_the_programs() -> None:
    watch, marking = a_watch()
    watch.install()
    model = nn.Linear(4, 1)
    model(INPUTS)
    model.eval()(INPUTS)  # before the first backward, while the program's own autocast is looked for
    assert marking.seen and not watch._roots.own_autocast
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(INPUTS)
    assert watch._roots.own_autocast
    watch.remove()


def test_modules_that_never_train_have_none() -> None:
    watch, marking = a_watch()
    watch.install()
    teacher, model = nn.Linear(4, 1).eval(), nn.Linear(4, 1)
    teacher(INPUTS)
    train(model)
    teacher(INPUTS)
    watch.remove()
    assert marking.seen == []


def test_an_error_in_evaluation_leaves_the_context_and_reaches_the_program() -> None:
    watch, marking = a_watch()
    watch.install()
    model = Failing(4, 1)
    train(model)
    try:
        model.eval()(INPUTS)
    except LookupError as error:
        assert str(error) == "no evaluation today"
    watch.remove()
    assert marking.seen == ["enter Failing", "leave Failing"]


def test_nobody_who_is_off_is_asked() -> None:
    watch, marking = a_watch(on=False)
    watch.install()
    model = nn.Linear(4, 1)
    train(model)
    assert model.eval()(INPUTS).dtype is torch.float32
    watch.remove()
    assert marking.seen == []
