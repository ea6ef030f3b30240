"""The clock of a run: what one step is, how long it took, and where its time went.

Five kinds of tick, strongest first: optimizer, backward, root forward, loader, and the program's own
mark (``manual``). The highest kind ever seen closes steps; the count starts over when a higher one
appears. Phases nest, and each is charged its self time, so that LBFGS or Lightning, which run forward and
backward inside ``optimizer.step()``, do not turn the whole step into "optimizer".
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

KINDS = ("manual", "loader", "forward", "backward", "optimizer")
UNINTERRUPTED_NS = 50_000  # between two steps: nobody stopped the program, so its CPU clock is not read again
PATIENCE = 500  # weaker ticks without the expected stronger one, before they count after all


@dataclass(frozen=True, slots=True)
class Step:
    """One closed step. Times in nanoseconds; ``phases_ns`` is self time by phase.

    ``cpu_ns`` is the CPU time of this process with all its threads, without loader workers.
    ``flags`` may hold ``evaluation``, ``save``, ``epoch``, ``compile``, ``skipped_update``.
    """

    index: int
    kind: str
    wall_ns: int
    cpu_ns: int
    phases_ns: dict[str, int]
    flags: frozenset[str]
    loader_samples: int
    root_samples: int
    sequence: str
    backwards: int


class Annotator(Protocol):
    """Is told of phases while the profiler records."""

    def enter(self, phase: str) -> None:
        """A phase begins."""

    def leave(self) -> None:
        """The innermost phase ends."""


@dataclass(slots=True)
class _Open:
    """The step being measured."""

    wall_start: int
    cpu_start: int
    phases: dict[str, int] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    loader_samples: int = 0
    root_samples: int = 0
    sequence: str = ""
    backwards: int = 0


class Clock:
    """Counts steps and charges time to phases; told by the hooks, read by nobody while it runs.

    Args:
        on_step: Called after each closed step, between two steps of the program. It may block: the
            next step's time starts when it returns.
        training_only: Forward and loader ticks never close a step (inference must be asked for, by this
            or by the program's own marks).
    """

    def __init__(
        self,
        on_step: Callable[[Step], None],
        *,
        training_only: bool = True,
        wall_ns: Callable[[], int] = time.perf_counter_ns,
        cpu_ns: Callable[[], int] = time.process_time_ns,
    ) -> None:
        self._on_step = on_step
        self._wall_ns = wall_ns
        self._cpu_ns = cpu_ns
        self._weakest = KINDS.index("backward") if training_only else 0
        self._rank = -1
        self._stack: list[tuple[str, int]] = []
        self._phase_start = wall_ns()
        self._step = _Open(self._phase_start, cpu_ns())
        self._process = os.getpid()
        self._in_update = 0
        self._updaters: list[int] = []
        self._suppressed = 0
        self.pushes = 0
        self.between_steps = False
        self._paused_ns = 0
        self.annotator: Annotator | None = None
        self.steps = 0
        self.first_tick_ns: int | None = None

    @property
    def kind(self) -> str | None:
        """The kind that closes steps; ``None`` before the first tick."""
        return KINDS[self._rank] if self._rank >= 0 else None

    @property
    def in_update(self) -> bool:
        """Whether an ``optimizer.step()`` is running."""
        return self._in_update > 0

    @property
    def phase(self) -> str | None:
        """The innermost phase at this moment; ``None`` between phases."""
        stack = self._stack
        return stack[-1][0] if stack else None

    def now_ns(self) -> int:
        """The program's own time: wall time without the pauses between steps, from an arbitrary zero."""
        return self._wall_ns() - self._paused_ns

    def push(self, phase: str) -> None:
        """Time from now on belongs to ``phase``, until the matching ``pop``."""
        if self.annotator is not None:
            self.annotator.enter(phase)
        self.pushes += 1
        now = self._wall_ns()
        stack = self._stack
        if stack:
            phases, outer = self._step.phases, stack[-1][0]
            phases[outer] = phases.get(outer, 0) + now - self._phase_start
        stack.append((phase, now))
        self._phase_start = now

    def pop(self) -> int:
        """End the innermost phase; returns its duration, nested phases included, in nanoseconds."""
        now = self._wall_ns()
        phase, began = self._stack.pop()
        phases = self._step.phases
        phases[phase] = phases.get(phase, 0) + now - self._phase_start
        self._phase_start = now
        if self.annotator is not None:
            self.annotator.leave()
        return now - began

    def flag(self, name: str) -> None:
        """Mark the step being measured."""
        self._step.flags.add(name)

    def count_samples(self, *, loader: int = 0, root: int = 0) -> None:
        """Samples that a loader delivered, or that entered a root in training."""
        self._step.loader_samples += loader
        self._step.root_samples += root

    def begin_update(self) -> None:
        """``optimizer.step()`` begins: nothing ticks until it ends."""
        self._in_update += 1
        self.push("optimizer")

    def end_update(self, optimizer: object) -> None:
        """``optimizer.step()`` returned. The optimizer seen first closes the step."""
        self.pop()
        self._in_update -= 1
        key = id(optimizer)
        if key not in self._updaters:
            self._updaters.append(key)
        position = self._updaters.index(key)
        self._step.sequence += str(min(position, 9))
        if position == 0:
            self._tick("optimizer")

    def cancel_update(self) -> None:
        """``optimizer.step()`` was left by an exception: no update, no tick."""
        self.pop()
        self._in_update -= 1

    def backward_done(self) -> None:
        """An outermost backward returned."""
        self._step.backwards += 1
        self._tick("backward")

    def forward_done(self) -> None:
        """A root forward in training returned."""
        self._tick("forward")

    def batch_delivered(self) -> None:
        """A loader gave a batch."""
        self._tick("loader")

    def mark(self) -> None:
        """The program itself says that a step is over; it counts as long as nothing stronger was seen."""
        self._tick("manual")

    def expect(self, kind: str) -> None:
        """The program has what produces ticks of ``kind`` (it made an optimizer): wait for those.

        Without this, a loop that accumulates gradients would be counted by its first backwards.
        """
        self._weakest = max(self._weakest, KINDS.index(kind))

    def restart(self) -> None:
        """Forget what was measured of the present step: it starts now."""
        self._begin(self._wall_ns(), self._cpu_ns())

    def _tick(self, kind: str) -> None:
        if os.getpid() != self._process or self._in_update:
            return
        rank = KINDS.index(kind)
        is_awaited = kind == "manual" or rank >= self._weakest
        if rank < self._rank or not (is_awaited or self._out_of_patience(kind)):
            return
        if rank > self._rank:
            self._rank = rank
            self.steps = 0
        now, cpu = self._wall_ns(), self._cpu_ns()
        if self._stack:
            phases, inner = self._step.phases, self._stack[-1][0]
            phases[inner] = phases.get(inner, 0) + now - self._phase_start
        if self.first_tick_ns is None:
            self.first_tick_ns = now  # nothing has been paused yet: also on the scale of now_ns
        closed = self._step
        step = Step(
            index=self.steps,
            kind=kind,
            wall_ns=now - closed.wall_start,
            cpu_ns=cpu - closed.cpu_start,
            phases_ns=closed.phases,
            flags=frozenset(closed.flags),
            loader_samples=closed.loader_samples,
            root_samples=closed.root_samples,
            sequence=closed.sequence,
            backwards=closed.backwards,
        )
        self.steps += 1
        self.between_steps = True
        self._on_step(step)
        self.between_steps = False
        resumed = self._wall_ns()
        self._paused_ns += resumed - now
        self._begin(resumed, cpu if resumed - now < UNINTERRUPTED_NS else self._cpu_ns())

    def _begin(self, wall_ns: int, cpu_ns: int) -> None:
        self._step = _Open(wall_ns, cpu_ns)
        self._phase_start = wall_ns
        if self._stack:
            self._stack = [(phase, wall_ns) for phase, _ in self._stack]

    def _out_of_patience(self, kind: str) -> bool:
        if kind != "backward":
            return False
        self._suppressed += 1
        return self._suppressed > PATIENCE
