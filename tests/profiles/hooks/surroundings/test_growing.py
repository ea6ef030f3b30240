"""What a process is seen to take more of, in loops of this process."""

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from advisor.profiles.derived.trends import trend
from advisor.profiles.events import Run
from advisor.profiles.facts.growing import Growth
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.surroundings.growing import MOST
from advisor.profiles.hooks.surroundings.resources import limits, read_resources
from advisor.profiles.hooks.watch import Watch


@contextmanager
def watching() -> Iterator[Watch]:
    clock = Clock(lambda step: watch.growth.step(step))
    watch = Watch(Run({}, {}), clock)
    watch.install()
    try:
        yield watch
    finally:
        watch.remove()


def grown(each_step: Callable[[nn.Module, torch.Tensor], Any], steps: int = 100) -> Growth:
    """What is seen of a small training whose steps also do ``each_step``, and keep what it returns."""
    with watching() as watch:
        model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        kept = []
        watch.growth._next = float("-inf")
        for _ in range(steps):
            output = model(torch.ones(2, 4))
            kept.append(each_step(model, output))
            optimizer.zero_grad()
            output.sum().backward()
            optimizer.step()
            watch.growth._next = float("-inf")  # read however little time has passed
        growth = watch.growth.facts()
    assert growth is not None
    return growth


def rate(growth: Growth, kind: str) -> float:
    found = [trend(each) for each in growth.readings if each.kind == kind]
    return found[0].per_step if found and found[0] is not None else 0.0


def test_files_that_each_step_leaves_open_are_counted_and_so_is_the_list_that_holds_them() -> None:
    growth = grown(lambda model, output: tempfile.TemporaryFile())  # noqa: SIM115  # that is the fault
    assert rate(growth, "open_files") == pytest.approx(1.0)
    (kept,) = [each for each in growth.variables if each.name == "kept"]
    assert kept.per_step == pytest.approx(1.0) and kept.holds == "files"
    assert kept.location is not None and kept.location.function == "grown"


def hook(model: nn.Module, output: torch.Tensor) -> Any:
    return model.register_forward_hook(lambda *_: None)


def test_hooks_that_each_step_registers_are_counted_with_their_line() -> None:
    growth = grown(hook)
    assert rate(growth, "hooks") == pytest.approx(1.0)
    assert growth.hooks_location is not None and growth.hooks_location.function == "hook"
    assert [each.holds for each in growth.variables if each.name == "kept"] == ["hooks"]


def test_tensors_in_shared_memory_are_told_from_others() -> None:
    for make, holds in ((lambda _, output: output.detach().share_memory_(), "shared"),
                        (lambda _, output: output.detach(), "tensors")):  # fmt: skip
        growth = grown(make)
        assert [each.holds for each in growth.variables if each.name == "kept"] == [holds]


def test_a_loop_that_keeps_nothing_does_not_grow() -> None:
    growth = grown(lambda model, output: None)
    assert not [kind for kind in ("open_files", "hooks", "threads", "children") if rate(growth, kind)]


def test_a_long_run_keeps_few_blocks() -> None:
    with watching() as watch:
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(1000):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            watch.growth._next = float("-inf")
        growth = watch.growth.facts()
    assert growth is not None
    (times,) = [each for each in growth.readings if each.kind == "step"]
    assert MOST / 2 - 8 <= len(times.steps) < MOST and times.steps[-1] >= 900


def test_the_limits_of_this_process_are_those_of_the_system() -> None:
    now = read_resources()
    assert {"open_files", "threads", "mapped", "memory", "children"} <= now.keys()
    known = limits(now)
    assert known["open_files"] > now["open_files"]
    assert known["shared_memory"] > now["shared_memory"]


def test_a_list_that_keeps_tensors_of_the_loader_is_told_from_one_of_copies() -> None:
    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "batch": lambda labels: labels,
        "tensors": lambda labels: labels.clone(),
    }
    for holds, keep in ways.items():
        with watching() as watch:
            data = TensorDataset(torch.ones(400, 4), torch.ones(400, 1))
            model = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            kept = []
            for inputs, labels in DataLoader(data, batch_size=4):
                nn.functional.mse_loss(model(inputs), labels).backward()
                optimizer.step()
                kept.append(keep(labels))
                watch.growth._next = float("-inf")
            growth = watch.growth.facts()
        assert growth is not None
        assert [each.holds for each in growth.variables if each.name == "kept"] == [holds]


class Answers:
    def __init__(self) -> None:
        self.all = torch.empty(0, 1)

    def add(self, output: torch.Tensor) -> None:
        self.all = torch.cat([self.all, output.detach()])


def test_a_tensor_that_each_step_joins_with_more_is_named_with_its_line() -> None:
    answers = Answers()
    growth = grown(lambda model, output: answers.add(output))
    (found,) = [each for each in growth.variables if each.name == "answers.all"]
    assert found.per_step == pytest.approx(2.0, rel=0.1)
    assert found.location is not None and found.location.line == Answers.add.__code__.co_firstlineno + 1


def test_handlers_of_a_logger_that_pile_up_are_named_with_the_line_that_adds_them() -> None:
    logger = logging.getLogger("of_this_test")

    def each_step(model: nn.Module, output: torch.Tensor) -> None:
        logger.addHandler(logging.NullHandler())

    try:
        growth = grown(each_step)
    finally:
        logger.handlers.clear()
    (found,) = [each for each in growth.variables if "of_this_test" in each.name]
    assert found.name == "logging.getLogger('of_this_test').handlers" and found.per_step == pytest.approx(1.0)


def test_the_samples_of_a_step_are_read_beside_its_time() -> None:
    """Each step takes one more."""
    with watching() as watch:
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(100):
            watch.growth._next = float("-inf")
            model(torch.ones(2 + step, 4)).sum().backward()
            optimizer.step()
        growth = watch.growth.facts()
    assert growth is not None
    samples, steps = (next(r for r in growth.readings if r.kind == kind) for kind in ("samples", "step"))
    assert samples.steps == steps.steps and samples.values[-1] - samples.values[0] == pytest.approx(
        samples.steps[-1] - samples.steps[0], abs=2
    )
