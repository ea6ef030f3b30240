"""Steps of which nothing is left to find out: taps then time phases themselves, and nothing may get lost."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import sleep
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from advisor.profiles.events import Run
from advisor.profiles.facts.machine import read_machine
from advisor.profiles.facts.profile import RunFacts
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.watch import Watch

SETTLED = 100  # steps after which every tap has seen enough
PHASES = {"input_wait", "forward", "backward", "optimizer"}
PAUSE_S = 0.02


class Loop:
    """A program under watch; ``inside`` runs in its forward, ``after`` as a step ends."""

    def __init__(self, batches: int = SETTLED + 40) -> None:
        torch.manual_seed(0)
        self.steps: list[Step] = []
        self.clock = Clock(self._closed)
        self.watch = Watch(Run({}, {}), self.clock)
        self.inside: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None
        self.batches = batches

    def make(self) -> None:
        loop = self

        class Net(nn.Linear):
            def forward(self, inputs: torch.Tensor) -> torch.Tensor:
                loop.inside()
                return super().forward(inputs)

        self.model = Net(4, 1)
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.loader: Any = DataLoader(TensorDataset(torch.randn(3 * self.batches - 1, 4)), batch_size=3)
        self.batch: Iterator[Any] = iter(self.loader)

    def step(self) -> None:
        self.sgd.zero_grad()
        self.model(next(self.batch)[0]).square().mean().backward()
        self.sgd.step()

    def settle(self) -> None:
        for _ in range(SETTLED):
            self.step()
        assert self.clock.plain

    def facts(self) -> RunFacts:
        facts = self.watch.profile(read_machine(), "script").run
        assert facts is not None
        return facts

    def _closed(self, step: Step) -> None:
        self.steps.append(step)
        self.after()


@contextmanager
def watched(batches: int = SETTLED + 40) -> Iterator[Loop]:
    loop = Loop(batches)
    loop.watch.install()
    try:
        loop.make()
        yield loop
    finally:
        loop.watch.remove()


def test_every_phase_batch_and_step_is_counted() -> None:
    with watched(SETTLED + 20) as loop:
        loop.settle()
        for _ in range(20):
            loop.step()
        with suppress(StopIteration):
            next(loop.batch)
        facts = loop.facts()
    assert len(loop.steps) == SETTLED + 20
    assert all(set(step.phases_ns) == PHASES for step in loop.steps[1:])
    assert all(0 < sum(step.phases_ns.values()) <= step.wall_ns for step in loop.steps)
    assert [step.loader_samples for step in loop.steps] == [3] * (SETTLED + 19) + [2]
    assert all((step.backwards, step.sequence, step.kind) == (1, "0", "optimizer") for step in loop.steps)
    (loader,) = loop.watch.loaders()
    assert (loader.batches, loader.steps, loader.samples_in_steps) == (
        SETTLED + 20,
        SETTLED + 20,
        3 * (SETTLED + 20) - 1,
    )
    assert len(loader.epoch_waits_ms) == 1
    assert (facts.samples_per_step, facts.sample_source) == (3 - 1 / (SETTLED + 20), "loader")
    assert facts.backwards_per_step == 1


def test_a_phase_inside_another_is_not_counted_twice() -> None:
    with watched() as loop:
        loop.settle()

        def write() -> None:
            loop.clock.push("save")
            sleep(PAUSE_S)
            loop.clock.pop()

        loop.inside = write
        loop.step()
    phases = loop.steps[-1].phases_ns
    assert phases["save"] >= 1e9 * PAUSE_S > 2 * phases["forward"]
    assert sum(phases.values()) <= loop.steps[-1].wall_ns


def test_a_step_that_an_exception_left_costs_the_next_one_nothing() -> None:
    with watched() as loop:
        loop.settle()

        def fail() -> None:
            raise ArithmeticError

        loop.inside = fail
        with suppress(ArithmeticError):
            loop.step()
        loop.inside = lambda: None
        with suppress(RuntimeError):
            torch.ones(1).backward()  # nothing there wants a gradient
        loop.sgd.param_groups[0]["lr"] = None
        with suppress(TypeError):
            loop.step()
        loop.sgd.param_groups[0]["lr"] = 0.01
        for _ in range(3):
            loop.step()
    assert len(loop.steps) == SETTLED + 3 and loop.clock.phase is None and loop.clock.in_update == 0
    assert [set(step.phases_ns) for step in loop.steps[-2:]] == [PHASES] * 2
    assert all(sum(step.phases_ns.values()) <= step.wall_ns for step in loop.steps)


def test_the_phase_is_known_where_somebody_asks_for_it() -> None:
    seen: list[str | None] = []
    with watched() as loop:
        loop.settle()
        loop.inside = lambda: seen.append(loop.clock.phase)
        loop.step()
        loop.watch.inspect(True)
        loop.step()
        loop.watch.inspect(False, steps=1)
        assert loop.clock.plain
        loop.step()
    assert seen == [None, "forward", None]


def test_a_part_can_be_left_out_and_brought_back() -> None:
    with watched() as loop:
        loop.settle()
        for part in ("backward", "loader"):
            loop.watch.omit(part)
            loop.step()
            loop.step()
        loop.watch.omit(None)
        for _ in range(4):
            loop.step()
    left_out, fed = loop.steps[SETTLED + 1], loop.steps[SETTLED + 3]
    assert "backward" not in left_out.phases_ns and set(fed.phases_ns) == PHASES
    assert [set(step.phases_ns) for step in loop.steps[-3:]] == [PHASES] * 3


def test_an_evaluation_between_two_steps_is_no_training() -> None:
    with watched() as loop:
        held = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        loop.settle()
        loop.model.eval()
        with torch.no_grad():
            for (batch,) in held:
                loop.model(batch)
        loop.model.train()
        loop.step()
        loop.step()
        facts = loop.facts()
    training, other = loop.watch.loaders()
    assert (training.steps, training.batches, other.batches) == (SETTLED + 2, SETTLED + 2, 4)
    assert "evaluation" in loop.steps[-2].flags and not loop.steps[-1].flags
    assert loop.steps[-2].phases_ns["evaluation"] > 0
    assert facts.samples_per_step == 3


def test_batches_that_are_accumulated_belong_to_one_step() -> None:
    with watched(2 * (SETTLED + 5)) as loop:
        for _ in range(SETTLED + 4):
            loop.sgd.zero_grad()
            for _ in range(2):
                loop.model(next(loop.batch)[0]).square().mean().backward()
            loop.sgd.step()
        facts = loop.facts()
    assert [(step.backwards, step.loader_samples) for step in loop.steps[-4:]] == [(2, 6)] * 4
    assert facts.samples_per_step == 6 and facts.backwards_per_step == 2


def test_a_forward_of_another_thread_is_not_timed() -> None:
    with watched() as loop:
        loop.settle()
        other = threading.Thread(target=lambda: loop.model(torch.ones(2, 4)).sum().backward())
        other.start()
        other.join()
        loop.step()
    assert loop.steps[-1].backwards == 1 and loop.steps[-1].sequence == "0"
    assert list(loop.steps[-1].spent).count("forward") == 1


def test_a_second_optimizer_joins_late() -> None:
    with watched() as loop:
        loop.settle()
        late = torch.optim.SGD(loop.model.parameters(), lr=0.001)
        for _ in range(3):
            loop.step()
            late.step()
    assert [step.sequence for step in loop.steps[-3:]] == ["0", "10", "10"]
    assert loop.steps[-1].phases_ns["optimizer"] > 0


def test_programs_that_update_inside_backward_never_make_plain_steps() -> None:
    with watched() as loop:
        by_parameter = {each: torch.optim.SGD([each], lr=0.01) for each in loop.model.parameters()}
        for each, sgd in by_parameter.items():
            each.register_post_accumulate_grad_hook(lambda _, sgd=sgd: sgd.step())
        for _ in range(SETTLED):
            loop.model(next(loop.batch)[0]).square().mean().backward()
        assert not loop.clock.plain
    assert all({"forward", "backward"} <= set(step.phases_ns) for step in loop.steps[2:])
    assert all(sum(step.phases_ns.values()) <= step.wall_ns for step in loop.steps)


def test_a_step_without_a_loader_has_the_samples_of_its_forward() -> None:
    with watched() as loop:
        for _ in range(SETTLED + 3):
            loop.sgd.zero_grad()
            loop.model(torch.ones(5, 4)).sum().backward()
            loop.sgd.step()
        facts = loop.facts()
    assert [(step.loader_samples, step.root_samples) for step in loop.steps[-3:]] == [(0, 5)] * 3
    assert (facts.samples_per_step, facts.sample_source) == (5, "root")


def test_what_watching_costs_is_not_told_by_a_step_with_an_evaluation() -> None:
    with watched() as loop:
        loop.settle()
        usual = loop.watch.profile(read_machine(), "script").watching
        loop.model.eval()
        for _ in range(1000):
            loop.model(torch.ones(2, 4))
        loop.model.train()
        loop.step()
        after = loop.watch.profile(read_machine(), "script").watching
    assert usual is not None and after is not None and 0 < after < 2 * usual
