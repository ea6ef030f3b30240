"""A training program in a thread, commanded at its step borders as a trial is, without a process."""

import itertools
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from advisor.profiles.events import Run
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.watch import Watch
from advisor.tuners.comparing import gate
from advisor.tuners.knob import AnyKnob, Knob, Refused, Semantics, Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.supervision.limits import Limits
from advisor.tuners.trial.numerics import nudge
from advisor.tuners.trial.numerics.relearning import Relearning
from advisor.tuners.trial.tasks import Task
from benchmarks.wrong_candidate import FAULTS, PATCHED, SCALE

PATIENCE_S = 30.0
Program = Callable[[], None]


class Wrong(Knob[str]):
    """A mistake of ``benchmarks/wrong_candidate.py`` that can be made and taken back between two steps."""

    semantics = Semantics.ROUNDING
    live = True

    def __init__(self) -> None:
        self._right: list[tuple[Any, str, Any]] = []

    def process(self, value: str) -> None:
        for owner, name, right in self._right:
            setattr(owner, name, right)
        self._right = [(owner, name, getattr(owner, name)) for owner, name in PATCHED]
        if value != "faster":
            FAULTS[value]()

    def optimizer(self, optimizer: torch.optim.Optimizer, value: str) -> None:
        if value == "faster":
            for group in optimizer.param_groups:
                group["lr"] *= SCALE


class _Stop(BaseException):
    """Ends a program at a step border."""


@dataclass(frozen=True)
class Ended:
    """How a program that was not told to stop ended, or that it has made the steps it was told to."""

    error: BaseException | None


@dataclass
class _Steps:
    """A task that only counts."""

    left: int

    def begin(self) -> None:
        """Nothing is looked at."""

    def take(self, step: Step) -> bool:
        self.left -= 1
        return self.left == 0

    def finish(self) -> Any:
        return Ended(None)


class Looping:
    """Of a ``Session`` what a comparison in one process needs.

    Args:
        program: Trains until it is stopped.
        present: The program's own settings.
        config: What it is started with.
        updates: Losses and gradient norms that are kept of its first steps; 0 for none.
        nudge_seed: Moves the first weights.
    """

    limits = Limits()

    def __init__(
        self,
        program: Program,
        present: Mapping[str, Value],
        config: Mapping[str, Value] | None = None,
        *,
        updates: int = 0,
        nudge_seed: int = 0,
    ) -> None:
        knobs: dict[str, AnyKnob] = {**KNOBS, "wrong": Wrong(), nudge.NAME: nudge.Nudge()}
        self._present = {**present, nudge.NAME: 0}
        self.run = Run(knobs, self._present, Refused)
        self.run.configure({**(config or present), **({nudge.NAME: nudge_seed} if nudge_seed else {})})

        self._updates = updates
        self._program = program
        self._commands: queue.Queue[Any] = queue.Queue()
        self._answers: queue.Queue[Any] = queue.Queue()
        self._task: Task | None = None
        self.learned: tuple[list[float], list[float]] = ([], [])
        self._thread = threading.Thread(target=self._train, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def ask(self, command: Any, answer: type[Any], wait_s: float) -> Any:
        self.tell(command)
        said = self._answers.get(timeout=PATIENCE_S)
        assert isinstance(said, answer), said
        return said

    def go(self, steps: int) -> None:
        """Have it make so many steps more."""
        self.ask(_Steps(steps), Ended, PATIENCE_S)

    def tell(self, command: Any) -> None:
        self._commands.put(command)

    def stop(self) -> None:
        self._commands.put(None)
        self._thread.join(PATIENCE_S)
        assert not self.alive

    def _train(self) -> None:
        clock = Clock(self._on_step)
        watch = Watch(self.run, clock, loss_limit=max(64, self._updates))
        watch.num_norms = max(64, self._updates) if self._updates else 0
        self._watch, self._relearning = watch, Relearning(self.run, lambda: watch)
        watch.install()
        error: BaseException | None = None
        try:
            self._program()
        except _Stop:
            self.learned = watch.losses(), watch.grad_norms()
        except BaseException as raised:
            error = raised
        finally:
            watch.remove()
            self.run.configure(self._present)
        self._answers.put(Ended(error))

    def _on_step(self, step: Step) -> None:
        if self._updates:
            if step.number + 1 >= self._updates:
                raise _Stop
            return
        if self._task is not None and not self._task.take(step):
            return
        if self._task is not None:
            self._answers.put(self._task.finish())
            self._task = None
        while self._task is None:
            command = self._commands.get(timeout=PATIENCE_S)
            if command is None:
                raise _Stop
            known = isinstance(command, _Steps)
            self._task = command if known else self._relearning.carry_out(command)
        self._task.begin()


def learned_anew(
    program: Program, present: Mapping[str, Value], config: Mapping[str, Value], steps: int, **how: int
) -> gate.Learning:
    """The first steps of a program under a configuration, as of a fresh process."""
    fresh = Looping(program, present, config, updates=steps, **how)
    fresh._thread.join(PATIENCE_S)
    losses, norms = fresh.learned
    return gate.Learning(tuple(losses[:steps]), 0, grad_norms=tuple(norms[:steps]))


def training(
    model: Callable[[], nn.Module],
    optimizer: Callable[[nn.Module], torch.optim.Optimizer],
    shape: tuple[int, ...],
    *,
    seed: int = 0,
    schedule: Callable[[torch.optim.Optimizer], Any] | None = None,
    each: Callable[[int, nn.Module], None] = lambda step, model: None,
    rows: int = 256,
) -> Program:
    """A program that classifies random data in batches of 8, and tells ``each`` of its steps."""

    def program() -> None:
        torch.manual_seed(seed)
        net = model()
        data = torch.utils.data.TensorDataset(torch.randn(rows, *shape), torch.randint(4, (rows,)))
        loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
        updates = optimizer(net)
        scheduler = schedule(updates) if schedule else None
        step = itertools.count()
        while True:
            for inputs, labels in loader:
                updates.zero_grad()
                nn.functional.cross_entropy(net(inputs), labels).backward()
                updates.step()
                if scheduler is not None:
                    scheduler.step()
                each(next(step), net)

    return program
