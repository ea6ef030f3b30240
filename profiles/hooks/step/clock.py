"""The clock of a run: what one step is, how long it took, and where its time went.

Six kinds of tick, strongest first: request (to a trained model), optimizer, backward, root forward, loader,
and the program's own mark (``manual``). The highest kind ever seen closes steps; the count starts over when
a higher one appears. Phases nest, and each is charged its self time, so that LBFGS or Lightning, which run
forward and backward inside ``optimizer.step()``, do not turn the whole step into "optimizer".
"""

import os
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from advisor.base.unit import Unit

KINDS = ("manual", "loader", "forward", "backward", "optimizer", "request")
MANUAL, LOADER, FORWARD, BACKWARD, OPTIMIZER, REQUEST = range(len(KINDS))
PATIENCE = 500  # weaker ticks without the expected stronger one, before they count after all


class Step(NamedTuple):
    """One closed step. Times in nanoseconds; ``spent`` holds each phase's name and then its self time.

    ``flags`` may hold ``evaluation``, ``save``, ``epoch``, ``compile``, ``skipped_update``.
    """

    number: int
    kind: str
    wall_ns: int
    spent: tuple[Any, ...]
    flags: frozenset[str]
    loader_samples: int
    root_samples: int
    sequence: str
    backwards: int

    @property
    def phases_ns(self) -> dict[str, int]:
        """Self time by phase."""
        phases: dict[str, int] = {}
        for phase, spent in zip(self.spent[::2], self.spent[1::2], strict=True):
            phases[phase] = phases.get(phase, 0) + spent
        return phases


class Annotator(Protocol):
    """Is told of phases while the profiler records."""

    def enter(self, phase: str) -> None:
        """A phase begins."""

    def leave(self) -> None:
        """The innermost phase ends."""


NO_FLAGS: frozenset[str] = frozenset()
NEW = tuple.__new__  # of a NamedTuple, without the function in Python that its constructor is


class Clock:
    """Counts steps and charges time to phases; told by the hooks, read by nobody while it runs.

    All that Python does costs several times as much where the operators of a step have emptied the caches of
    the processor: what every step meets is written out where others would call a function. While the clock is
    ``plain`` and ``stack`` is empty, a tap of every step may time a phase itself: as the phase ends, it adds
    to ``spent`` the name and the time, less the times that were added since the phase began.

    Args:
        on_step: Called after each closed step, between two steps of the program. It may block: the
            next step's time starts when it returns.
        training_only: Forward and loader ticks never close a step (inference must be asked for, by this
            or by the program's own marks).
        unit: Of a run counted in requests nothing else closes a step.

    Attributes:
        annotator: Is told of phases, while somebody records.
        plain: Whether nobody is told of phases, and steps end with updates, outside any other phase.
        stack: The phases that run, outermost first: name, begin, and the time of ended phases inside them.
        spent: The phases of this step that have ended, as a ``Step`` holds them.
        wall_ns: Reads the time.
        latest: The step that was closed last.
        updates: How many outermost ``optimizer.step()`` have returned.
        borders: Ends of updates, and outermost backwards that began inside one.
        border_ns: When the last of those was, as ``now_ns``; ``None`` before the first.
        in_update: How many ``optimizer.step()`` are running, one inside the other.
        rank: Position in ``KINDS`` of what closes steps; -1 before the first tick. Weaker ticks need not be
            told, which spares a call in every step.
        loader_samples: Samples that a loader delivered, counted up in the step being measured.
        root_samples: Those that entered a root in training.
        backwards: Outermost backwards that returned in this step.
    """

    def __init__(
        self,
        on_step: Callable[[Step], None],
        *,
        training_only: bool = True,
        unit: Unit = Unit.STEP,
        wall_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._on_step = on_step
        self.wall_ns = wall_ns
        self._weakest = BACKWARD if training_only else 0
        if unit is Unit.REQUEST:
            self._weakest = REQUEST
        self.rank = -1
        self._kind = ""
        self.plain = False
        self.stack: list[list[Any]] = []
        self.spent: list[Any] = []
        self._begin(wall_ns())
        self.forked = False
        _leave_in_children(self)
        self.in_update = 0
        self._updaters: dict[int, str] = {}
        self._suppressed = 0
        self.updates = self.borders = 0
        self.latest: Step | None = None
        self.border_ns: int | None = None
        self.between_steps = False
        self._paused_ns = 0
        self._annotator: Annotator | None = None
        self._asked = False
        self._nests = False
        self.steps = 0
        self.first_tick_ns: int | None = None

    @property
    def kind(self) -> str | None:
        """The kind that closes steps; ``None`` before the first tick."""
        return KINDS[self.rank] if self.rank >= 0 else None

    @property
    def annotator(self) -> Annotator | None:
        """Is told of phases, while somebody records."""
        return self._annotator

    @annotator.setter
    def annotator(self, annotator: Annotator | None) -> None:
        self._annotator = annotator
        self._look()

    def ask(self, on: bool) -> None:
        """Begin or end telling the present phase: somebody wants to know it at any time."""
        self._asked = on
        self._look()

    def _look(self) -> None:
        told = self._asked or self._annotator is not None
        self.plain = self.rank == OPTIMIZER and not (told or self._nests)

    @property
    def phase(self) -> str | None:
        """The innermost phase at this moment; ``None`` between phases. Not known while ``plain``."""
        stack = self.stack
        return stack[-1][0] if stack else None

    def now_ns(self) -> int:
        """The program's own time: wall time without the pauses between steps, from an arbitrary zero."""
        return self.wall_ns() - self._paused_ns

    def program_ns(self, wall_ns: int) -> int:
        """A reading of ``wall_ns`` in the present step, as ``now_ns``."""
        return wall_ns - self._paused_ns

    def began_ns(self) -> int:
        """When the innermost phase began, as ``now_ns``."""
        return self.program_ns(self.stack[-1][1])

    def push(self, phase: str) -> None:
        """Time from now on belongs to ``phase``, until the matching ``pop``."""
        if self._annotator is not None:
            self._annotator.enter(phase)
        self.stack.append([phase, self.wall_ns(), 0])

    def pop(self) -> int:
        """End the innermost phase; returns its duration, nested phases included, in nanoseconds."""
        now = self._ended = self.wall_ns()
        stack = self.stack
        phase, began, nested = stack.pop()
        spent: int = now - began
        self.spent += phase, spent - nested
        if stack:
            stack[-1][2] += spent
        if self._annotator is not None:
            self._annotator.leave()
        return spent

    def border(self) -> None:
        """A backward begins inside an update: what follows is another run of its closure."""
        self.borders += 1
        self.border_ns = self.now_ns()

    def flag(self, name: str) -> None:
        """Mark the step being measured."""
        self._flags |= {name}

    def begin_update(self) -> None:
        """``optimizer.step()`` begins: nothing ticks until it ends."""
        self.in_update += 1
        self.push("optimizer")

    def end_update(self, optimizer: object) -> None:
        """``optimizer.step()`` returned. The optimizer seen first closes the step."""
        self.pop()
        self.in_update -= 1
        self.updates += 1
        self.borders += 1
        self.border_ns = self._ended - self._paused_ns
        updaters = self._updaters
        position = updaters.get(id(optimizer))
        if position is None:
            position = updaters[id(optimizer)] = str(min(len(updaters), 9))
        self._sequence += position
        if position == "0":
            self._tick(OPTIMIZER, self._ended)

    def replaces(self, optimizer: object, earlier: object) -> None:
        """The program made this optimizer in the place of an earlier one, which updates no more."""
        position = self._updaters.pop(id(earlier), None)
        if position is not None:
            self._updaters[id(optimizer)] = position

    def closes(self, optimizer: object) -> bool:
        """Whether the updates of this optimizer close steps, as far as is known."""
        return self._updaters.get(id(optimizer)) == "0"

    def end_plain_update(self) -> None:
        """As ``end_update``, for the outermost phase and the optimizer seen first, while ``plain``."""
        now = self.wall_ns()
        _, began, nested = self.stack.pop()
        self.spent += "optimizer", now - began - nested
        self.in_update = 0
        self.updates += 1
        self.borders += 1
        self.border_ns = now - self._paused_ns
        self._sequence += "0"
        if not self.forked:
            self._close(now)

    def cancel_update(self) -> None:
        """``optimizer.step()`` was left by an exception: no update, no tick."""
        self.pop()
        self.in_update -= 1

    def backward_done(self) -> None:
        """An outermost backward returned."""
        self.backwards += 1
        if self.rank <= BACKWARD:
            self._tick(BACKWARD, self.wall_ns())

    def forward_done(self) -> None:
        """A root forward in training returned."""
        if self.rank <= FORWARD:
            self._tick(FORWARD, self.wall_ns())

    def batch_delivered(self) -> None:
        """A loader gave a batch."""
        if self.rank <= LOADER:
            self._tick(LOADER, self.wall_ns())

    def request_done(self) -> None:
        """A request was answered."""
        self._tick(REQUEST, self.wall_ns())

    def elapsed_ns(self) -> int:
        """Nanoseconds of the present step so far."""
        return self.wall_ns() - self._step_start

    def mark(self) -> None:
        """The program itself says that a step is over; it counts as long as nothing stronger was seen."""
        self._tick(MANUAL, self.wall_ns())

    def expect(self, kind: str) -> None:
        """The program has what produces ticks of ``kind`` (it made an optimizer): wait for those.

        Without this, a loop that accumulates gradients would be counted by its first backwards.
        """
        self._weakest = max(self._weakest, KINDS.index(kind))

    def restart(self) -> None:
        """Forget what was measured of the present step: it starts now."""
        self._begin(self.wall_ns())

    def _begin(self, wall_ns: int) -> None:
        self._step_start = wall_ns
        self.spent.clear()
        self._flags = NO_FLAGS
        self._sequence = ""
        self.backwards = self.loader_samples = self.root_samples = 0
        for running in self.stack:
            running[1:] = wall_ns, 0

    def _tick(self, rank: int, now: int) -> None:
        if rank < self.rank or self.in_update or self.forked:
            return
        if rank < self._weakest and rank != MANUAL and not self._out_of_patience(rank):
            return
        if rank > self.rank:
            if self.first_tick_ns is None:
                self.first_tick_ns = now  # nothing has been paused yet: also on the scale of now_ns
            self.rank = rank
            self._kind = KINDS[rank]
            self._look()
            self.steps = 0
        if self.stack:
            self._charge_running(now)
            self._nests, self.plain = True, False
        self._close(now)

    def _close(self, now: int) -> None:
        number, spent = self.steps, self.spent
        self.steps = number + 1
        self.latest = step = NEW(
            Step,
            (
                number, self._kind, now - self._step_start, tuple(spent), self._flags, self.loader_samples,
                self.root_samples, self._sequence, self.backwards,
            ),
        )  # fmt: skip
        self.between_steps = True
        self._on_step(step)
        self.between_steps = False
        self._step_start = resumed = self.wall_ns()
        self._paused_ns += resumed - now
        spent.clear()
        self._flags = NO_FLAGS
        self._sequence = ""
        self.backwards = self.loader_samples = self.root_samples = 0
        if self.stack:
            for running in self.stack:
                running[1:] = resumed, 0

    def _charge_running(self, now: int) -> None:
        """A step ends inside phases: what they have taken so far is its own."""
        for phase, began, nested in reversed(self.stack):
            self.spent += phase, now - began - nested
            now = began

    def _out_of_patience(self, rank: int) -> bool:
        if rank != BACKWARD or self._weakest == REQUEST:
            return False
        self._suppressed += 1
        return self._suppressed > PATIENCE


def _leave_in_children(clock: Clock) -> None:
    """A process forked from this one makes no steps of its own."""
    this = weakref.ref(clock)

    def leave() -> None:
        clock = this()
        if clock is not None:
            clock.forked = True

    os.register_at_fork(after_in_child=leave)
