"""What the steps of a loop in this process are used for: passing, watching, looking closely, recording."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.base.errors import UsageError
from advisor.profiles.facts.machine import Machine
from advisor.profiles.facts.observed import HostFacts
from advisor.profiles.facts.profile import Profile, StepPhases
from advisor.profiles.hooks.model.owners import is_optimized
from advisor.profiles.hooks.recorder import Plan, can_mark, plan
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.step.lineage import STEPS
from advisor.profiles.hooks.watch import Watch
from advisor.profiles.traces.event_cost import Parts
from advisor.profiles.traces.reading import read_trace
from advisor.profiles.traces.shaping import joined
from advisor.stages.diagnosing.diagnosis import INSPECT_S, syncs_of
from advisor.stages.diagnosing.watched import (
    host_of,
    inspected,
    phases_of_recorded,
    phases_of_watched,
    series_of,
)
from advisor.tuners.comparing.replay import normal_step_s
from advisor.tuners.trial.look_messages import Observed, Recorded
from advisor.tuners.trial.messages import Message
from advisor.tuners.trial.tasks import Inspection, Observation, Recording, Task

INSPECTED_SHARE = 1 / 6  # of the steps; what is not recorded either is watched
RECORDED_SHARE = 7 / 20
MOST_RECORDED = 24
INSPECTED = 12  # at most
LEAST_RECORDED = 3  # a pilot, which also warms the profiler up, a gap, and one step
GAP = 1  # step between two windows
LOUD = "KINETO_LOG_LEVEL"  # by default torch 2.13 tells of every start and stop on stderr
AWAITED = 64  # backwards without an update, where an optimizer holds the parameters, before they count


@dataclass(frozen=True)
class Division:
    """How many steps are used for what; ``steps`` in all, after ``skipped`` ones."""

    skipped: int
    steps: int

    @property
    def inspected(self) -> int:
        """Steps that are looked at closely."""
        return min(INSPECTED, int(self.steps * INSPECTED_SHARE))

    @property
    def recorded(self) -> int:
        """Steps of torch.profiler windows, the pilot's and the gaps between them included."""
        return min(MOST_RECORDED, int(self.steps * RECORDED_SHARE))

    @property
    def watched(self) -> int:
        """Clean steps to watch."""
        return self.steps - self.inspected - self.recorded

    @property
    def most_watched(self) -> int:
        """Steps to watch at most, where some have an evaluation or an epoch's start in them."""
        return self.steps - self.inspected - min(LEAST_RECORDED, self.recorded)


@dataclass(frozen=True)
class Kept:
    """A trace file of so many steps; ``beside`` is whether it gives only shapes and places to another."""

    path: Path
    steps: int
    beside: bool
    phases: StepPhases


@dataclass
class Seen:
    """What was seen of a loop, with nothing of the loop kept alive.

    Attributes:
        profile: Facts without a recorded window; ``None`` before enough was watched.
        clean_ms: Mean of a normal step.
        recorded: In the order of recording: a pilot, a window for times, one for shapes and places.
        passed: Steps since the strongest kind of tick was first met.
        notes: What went otherwise than planned.
    """

    profile: Profile | None = None
    clean_ms: float = 0.0
    recorded: list[Kept] = field(default_factory=list)
    passed: int = 0
    notes: list[str] = field(default_factory=list)

    def whole(self) -> Profile | None:
        """The facts with what the recorded windows show, as long as their files are there.

        Raises:
            UsageError: A trace cannot be read.
        """
        timed = [each for each in self.recorded if not each.beside]
        if self.profile is None or not timed:
            return self.profile
        trace, watched = read_trace(timed[-1].path), self.profile.phases
        parts = None if watched is None else Parts(watched, timed[-1].phases)
        others = [read_trace(each.path) for each in self.recorded if each.beside]
        window = joined(trace, others, self.clean_ms, parts)
        return replace(self.profile, window=window, syncs=syncs_of(self.profile, trace))


class Stages:
    """Takes every closed step of a loop; nothing that goes wrong here may disturb the loop.

    Args:
        watch: Installed.
        clock: The watch's.
        machine: What is known of it.
        folder: For trace files.
        division: How many steps are used for what.

    Attributes:
        complete: Whether all stages are over: the taps are to come off.
    """

    def __init__(
        self, watch: Watch, clock: Clock, machine: Machine, folder: Path, division: Division
    ) -> None:
        self._watch = watch
        self._clock = clock
        self._machine = machine
        self._folder = folder
        self._division = division
        self._task: Task | None = None
        self._message = Message()
        self._most = 0
        self._used = 0
        self._used_by_task = 0
        self.complete = False
        self._kind: str | None = None
        self._awaits_update: bool | None = None
        self._restart()

    def begin(self) -> None:
        """The loop begins: without steps to skip, the first one counts."""
        if not self._division.skipped:
            self._advance()

    def take(self, step: Step) -> None:
        """A step was closed."""
        with self._harmlessly():
            self._take(step)

    def end(self) -> None:
        """The loop is over: what was watched or looked at so far is kept, a half recorded window is not."""
        if self.complete:
            return
        with self._harmlessly():
            if isinstance(self._task, Recording) or not self._used_by_task:
                self.abandon()
            else:
                self._close()
                if self.seen.profile is None:
                    self._keep_watched()
                else:
                    self.seen.profile = inspected(self.seen.profile, self._facts())
        planned = self._division.skipped + self._division.steps
        self.seen.notes.append(f"the loop ended after {self.seen.passed} of {planned} steps")
        self.complete = True

    def abandon(self) -> None:
        """End what is going on at once; it leaves nothing."""
        task, self._task = self._task, None
        if isinstance(task, Inspection):
            task.finish()
        elif isinstance(task, Recording):
            with suppress(RuntimeError):  # the profiler itself may be what has failed
                task.abandon()

    @contextmanager
    def _harmlessly(self) -> Iterator[None]:
        """A full disk, a profiler that refuses: the program must go on as if we were not here."""
        try:
            yield
        except (OSError, RuntimeError, UsageError) as error:
            self.seen.notes.append(f"profiling ended early: {type(error).__name__}: {error}")
            self.abandon()
            self.complete = True

    def _take(self, step: Step) -> None:
        if self.complete or self._is_part(step):
            return
        if self._kind not in (None, step.kind):  # what was counted until now were parts of steps
            self.abandon()
            self._restart()
        self._kind = step.kind
        self.seen.passed += 1
        if self._task is None:
            if self.seen.passed >= self._division.skipped:
                self._advance()
            return
        self._used += 1
        self._used_by_task += 1
        if self._task.take(step) or self._used_by_task >= self._most:
            self._close()
            self._advance()

    def _is_part(self, step: Step) -> bool:
        """Whether a backward is only a part of a step that an optimizer will end (accumulation)."""
        if step.kind != "backward" or step.number >= AWAITED:
            return False
        if self._awaits_update is None:
            self._awaits_update = is_optimized(self._watch.models())
        return self._awaits_update

    def _restart(self) -> None:
        self.seen = Seen()
        self.complete = False
        self._used = self._used_by_task = 0
        self._tasks = self._in_turn()

    def _advance(self) -> None:
        following = next(self._tasks, None)
        if following is None:
            self.complete = True
            return
        self._task, self._most = following
        self._used_by_task = 0
        with quiet_profiler():
            self._task.begin()

    def _close(self) -> None:
        assert self._task is not None
        self._message = self._task.finish()
        self._task = None

    def _in_turn(self) -> Iterator[tuple[Task, int]]:
        """Tasks with the most steps that each may take; resumed when the last one has left its message."""
        division = self._division
        yield Observation(self._watch, 0.0, division.watched, math.inf), division.most_watched
        self._keep_watched()
        if division.inspected:
            steps = max(1, division.inspected - STEPS)
            yield Inspection(self._watch, self._clock, steps, INSPECT_S), division.inspected
            assert self.seen.profile is not None
            self.seen.profile = inspected(self.seen.profile, self._facts())
        if not division.recorded or self._is_hindered():
            return
        yield self._recording(Plan(1 if self._left >= LEAST_RECORDED else self._left))
        pilot = self._keep_recorded(beside=False)
        events = len(read_trace(pilot.path)) / pilot.steps
        run = self.seen.profile.run if self.seen.profile is not None else None
        timed, *others = plan(events, run.period if run else 1)
        for number, wanted in enumerate(affordable(timed, others, self._left)):
            yield _Passing(), GAP
            if self._is_hindered():
                return
            yield self._recording(replace(wanted, places=wanted.places and can_mark(self._kind)))
            self._keep_recorded(beside=number > 0)

    def _is_hindered(self) -> bool:
        """Whether the program records itself, which leaves no room for us."""
        if profiler_is_active():
            self.seen.notes.append("the program runs a profiler of its own: less was recorded")
            return True
        return False

    @property
    def _left(self) -> int:
        return self._division.steps - self._used

    def _keep_watched(self) -> None:
        watched, facts = self._message, self._facts()
        assert isinstance(watched, Observed)
        host = replace(facts.host or HostFacts(), **host_of(watched))
        phases, series = phases_of_watched(watched), series_of(watched)
        self.seen.profile = replace(facts, phases=phases, series=series, host=host)
        self.seen.clean_ms = 1000 * normal_step_s(watched.wall_ns, watched.flags)

    def _recording(self, wanted: Plan) -> tuple[Task, int]:
        path = self._folder / f"trace-{len(self.seen.recorded)}.json"
        return Recording(
            self._clock, path, wanted.steps, shapes=wanted.shapes, places=wanted.places
        ), wanted.steps

    def _keep_recorded(self, *, beside: bool) -> Kept:
        message = self._message
        assert isinstance(message, Recorded)
        kept = Kept(Path(message.path), len(message.wall_ns), beside, phases_of_recorded(message))
        self.seen.recorded.append(kept)
        return kept

    def _facts(self) -> Profile:
        return self._watch.profile(self._machine, "script")


class _Passing:
    """Lets a step pass.

    A range (``record_function``) that is open when one window ends and closed in the next writes into freed
    memory (torch 2.13), and steps end inside the range that torch puts around every update.
    """

    def begin(self) -> None:
        """Nothing is begun."""

    def take(self, step: Step) -> bool:
        """A step has passed."""
        return True

    def finish(self) -> Message:
        """Nothing is told."""
        return Message()


def affordable(timed: Plan, beside: list[Plan], left: int) -> list[Plan]:
    """The windows, shortened to the steps that are left; where only one can be had, with shapes at once."""
    wanted = sum(GAP + each.steps for each in beside)
    kept = beside if left - GAP - wanted >= 2 else []
    steps = min(timed.steps, left - GAP - sum(GAP + each.steps for each in kept))
    return [replace(timed, steps=steps, shapes=timed.shapes or not kept), *kept] if steps > 0 else []


@contextmanager
def quiet_profiler() -> Iterator[None]:
    """What is started inside for the first time in a process writes nothing to stderr, then or later."""
    if LOUD in os.environ:
        yield
        return
    os.environ[LOUD] = "99"
    try:
        yield
    finally:
        del os.environ[LOUD]


def profiler_is_active() -> bool:
    """Whether torch.profiler, or the one of autograd, records in this process."""
    import torch

    return bool(torch._C._autograd._profiler_enabled())
