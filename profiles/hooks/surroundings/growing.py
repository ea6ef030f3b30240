"""What a process takes more of from step to step: readings at the ends of blocks of steps."""

import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING

from advisor.profiles.facts.growing import Growth, Readings
from advisor.profiles.hooks.loading.noted_batch import NotedBatch
from advisor.profiles.hooks.model.registered_hooks import RegisteredHooks, count_hooks
from advisor.profiles.hooks.step.clock import Step
from advisor.profiles.hooks.surroundings.containers import GrowingContainers
from advisor.profiles.hooks.surroundings.resources import limits, read_resources

if TYPE_CHECKING:
    from torch.nn import Module

BLOCK = 4  # steps between two readings, at first
SHARE = 1 / 300  # of the time, that reading may take after the first blocks
FREE = 16  # blocks that are read however little time has passed
SETTLING = 20  # steps before the first block that counts, where there are enough after them
FEWEST = 6  # blocks
MOST = 64  # blocks; then two become one
PARTS = ("forward", "backward", "optimizer", "input_wait", "logging")


class GrowthWatch:
    """Reads the resources of a process between steps, which are not timed meanwhile.

    Args:
        hooks: Counts hooks that the program registers.
        modules: Gives the modules that it trains.
        batches: Notes a batch now and then.
    """

    def __init__(
        self, hooks: RegisteredHooks, modules: "Callable[[], Iterable[Module]]", batches: NotedBatch
    ) -> None:
        self._hooks = hooks
        self._modules = modules
        self._batches = batches
        self._containers = GrowingContainers(batches.tensors)
        self._every = BLOCK
        self._next = 0.0
        self._closed = 0
        self._steps: list[Step] = []
        self._blocks: list[tuple[int, dict[str, float], dict[str, float]]] = []

    def step(self, step: Step) -> None:
        """A step was closed, on the thread that trains."""
        self._closed += 1
        self._steps.append(step)
        if len(self._steps) < self._every:
            return
        now = time.perf_counter()
        if now >= self._next or len(self._blocks) < FREE:
            self._close()
            ended = time.perf_counter()
            self._next = ended + (ended - now) / SHARE

    def facts(self, frame: FrameType | None = None) -> Growth | None:
        """Everything read so far; ``None`` before there are three blocks.

        Args:
            frame: From which on outwards variables of the program are seen; the caller's if it trains.
        """
        settled = [block for block in self._blocks if block[0] > SETTLING]
        blocks = settled if len(settled) >= FEWEST else self._blocks
        if len(blocks) < 3:
            return None
        known = limits(blocks[-1][2])
        timed = [(at, times) for at, times, _ in blocks if times]
        counted = [(at, counts) for at, _, counts in blocks]
        readings = [_readings(kind, timed, None) for kind in ("step", "samples", *PARTS)]
        readings += [_readings(kind, counted, known.get(kind)) for kind in counted[-1][1]]
        return Growth(
            tuple(_brief(each) for each in readings if len(each.steps) >= 3),
            self._containers.found(self._closed, frame or sys._getframe(1)),
            self._hooks.location,
        )

    def _close(self) -> None:
        clean = [step for step in self._steps if not step.flags]
        times: dict[str, float] = {}
        if clean:
            phases = [step.phases_ns for step in clean]
            times = {part: statistics.median(each.get(part, 0) for each in phases) / 1e6 for part in PARTS}
            times["step"] = statistics.median(step.wall_ns for step in clean) / 1e6
            times["samples"] = statistics.median(step.loader_samples or step.root_samples for step in clean)
        counts = read_resources()
        counts["hooks"] = float(count_hooks(self._modules()))
        first = self._closed <= SETTLING or not self._blocks
        self._blocks.append((self._closed, times, counts))
        self._steps.clear()
        self._batches.note()
        if first:
            self._hooks.forget()
            self._containers.begin(self._closed)
        if len(self._blocks) >= MOST:
            self._blocks = [
                _joined(*pair) for pair in zip(self._blocks[::2], self._blocks[1::2], strict=True)
            ]
            self._every *= 2


_Block = tuple[int, dict[str, float], dict[str, float]]


def _joined(one: _Block, other: _Block) -> _Block:
    """Two blocks of about as many steps: the mean of their times, and what was read last."""
    times = other[1] or one[1]
    if one[1] and other[1]:
        times = {part: (one[1][part] + spent) / 2 for part, spent in other[1].items()}
    return other[0], times, other[2]


def _brief(readings: Readings) -> Readings:
    """What never changed as its first and last reading."""
    if len(set(readings.values)) > 1:
        return readings
    return replace(
        readings, steps=readings.steps[:: len(readings.steps) - 1], values=(readings.values[0],) * 2
    )


def _readings(kind: str, read: list[tuple[int, dict[str, float]]], limit: float | None) -> Readings:
    known = [(at, values[kind]) for at, values in read if kind in values]
    return Readings(kind, tuple(at for at, _ in known), tuple(value for _, value in known), limit)
