"""What a trial may be told to do for the next steps of its program, beside measuring a slot.

A task sees every closed step and says when it is done; the program runs on until then.
"""

import os
import time
from collections import Counter
from pathlib import Path
from typing import Protocol

from advisor.profiles.derived.disturbance import OTHER_CPUS, TICK_S, TICKS
from advisor.profiles.facts.machine import cgroup_throttling
from advisor.profiles.hooks.model.discovery import dynamo_at_work
from advisor.profiles.hooks.recorder import Recorder, can_mark
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.step.lineage import STEPS
from advisor.profiles.hooks.surroundings.company import company, cpu_seconds
from advisor.profiles.hooks.watch import Watch
from advisor.tuners.trial.look_messages import Inspected, Observed, Recorded
from advisor.tuners.trial.messages import Message
from advisor.tuners.trial.slot import FLAGGED_LIMIT, cpu_times

MOST_STEPS = 20_000  # of one observation


class Task(Protocol):
    """Something that takes several steps."""

    def begin(self) -> None:
        """At the step border before the first step."""

    def take(self, step: Step) -> bool:
        """A step was closed; whether the task is complete."""

    def finish(self) -> Message:
        """What the tuner is told."""


class Observation:
    """Watches steps with nothing changed and nothing more than the usual taps.

    Args:
        watch: Its memory watch covers the same steps.
        seconds: How long at least, once ``steps`` clean ones were seen.
        steps: Clean steps at least; of a program without any, such as one that evaluates after each, all
            count once a clean one was waited for.
        limit_s: How long at most.
        exact: Take just ``steps`` steps, clean or not: ranks that wait for each other take equally many.
    """

    def __init__(
        self, watch: Watch, seconds: float, steps: int, limit_s: float, *, exact: bool = False
    ) -> None:
        self._exact = exact
        self._watch = watch
        self._seconds = seconds
        self._least = steps
        self._limit_s = limit_s
        self._steps: list[Step] = []
        self._clean = 0

    def begin(self) -> None:
        """Read the counters of the system."""
        self._watch.memory.begin()
        self._load = cpu_times()
        self._company = cpu_seconds()
        self._throttled = cgroup_throttling()
        self._cpu_began_ns = time.process_time_ns()
        self._began = time.perf_counter()

    def take(self, step: Step) -> bool:
        """Keep the step."""
        self._watch.memory.step()
        self._steps.append(step)
        self._clean += not step.flags
        if self._exact:
            return len(self._steps) >= self._least
        spent = time.perf_counter() - self._began
        waited = not self._clean and len(self._steps) >= self._least + FLAGGED_LIMIT
        enough = (waited or self._clean >= self._least) and spent >= self._seconds
        return enough or spent >= self._limit_s or len(self._steps) >= MOST_STEPS

    def finish(self) -> Observed:
        """All steps."""
        seconds = time.perf_counter() - self._began
        self._cpu_ns = time.process_time_ns() - self._cpu_began_ns
        self._watch.memory.end()
        own, everyone = (b - a for a, b in zip(self._load, cpu_times(), strict=True))
        clean = [step for step in self._steps if not step.flags]
        phases: Counter[str] = Counter()
        for step in clean or self._steps:
            phases.update(step.phases_ns)
        return Observed(
            wall_ns=tuple(step.wall_ns for step in self._steps),
            cpu_ns=self._cpu_ns,
            input_ns=tuple(step.phases_ns.get("input_wait", 0) for step in self._steps),
            flags={place: tuple(sorted(step.flags)) for place, step in enumerate(self._steps) if step.flags},
            phases_ns=dict(phases),
            all_flagged=not clean,
            seconds=seconds,
            other_cpus=other_cpus(everyone - own, seconds),
            throttled=(self._throttled, cgroup_throttling()),
            company=company(self._company, cpu_seconds(), seconds),
        )


def other_cpus(busy_s: float, seconds: float) -> float | None:
    """CPUs that other processes kept busy; ``None`` of a window in which the kernel's ticks tell no load.

    Args:
        busy_s: CPU seconds of all on the CPUs that it may use, less those of this run: sums of ticks.
        seconds: In which they were counted.
    """
    if seconds < TICKS * TICK_S / OTHER_CPUS:
        return None
    return min(max(0.0, busy_s) / seconds, float(os.cpu_count() or 1))


class Inspection:
    """Looks closely at a few steps, at a cost that would falsify times: blocking calls, hot lines, tables.

    Where the function mode that it needs can come and go, values are then followed through a few more steps.

    Args:
        watch: Holds the taps.
        clock: Of the run.
        steps: To look at.
        limit_s: Seconds at most, unless ``exact``; half of them for what comes before.
        sampled: Steps before, in which hot lines alone are met: a few short ones meet next to none.
        exact: All of the steps, however long they take.
    """

    def __init__(
        self,
        watch: Watch,
        clock: Clock,
        steps: int,
        limit_s: float,
        *,
        sampled: int = 0,
        exact: bool = False,
    ) -> None:
        self._exact = exact
        self._sampled = sampled
        self._looking = False
        self._watch = watch
        self._clock = clock
        self._left = steps
        self._limit_s = limit_s
        self._following = 0

    def begin(self) -> None:
        """Put the costly taps in place, or first the one for hot lines alone."""
        self._began = time.perf_counter()
        self._count = 0
        if self._sampled:
            self._watch.sample(True)
        else:
            self._look()

    def take(self, step: Step) -> bool:
        """Count the step."""
        if self._sampled:
            self._sampled -= 1
            if self._is_late(self._limit_s / 2):
                self._sampled = 0
            if not self._sampled:
                self._look()
            return False
        if self._following:
            self._following -= 1
            if self._following:
                self._watch.lineage.next_step()
            return not self._following
        self._count += 1
        late = self._is_late(self._limit_s)
        if self._count < self._left and not late:
            return False
        self._end_look()
        if late or not can_mark(self._clock.kind) or dynamo_at_work():
            return True
        self._watch.lineage.start()
        self._following = STEPS
        return False

    def finish(self) -> Inspected:
        """Take all of it away again; what was seen is in the facts."""
        if self._sampled:
            self._watch.sample(False)
        self._end_look()
        self._watch.lineage.stop()
        return Inspected(self._count)

    def _is_late(self, limit_s: float) -> bool:
        return not self._exact and time.perf_counter() - self._began > limit_s

    def _look(self) -> None:
        self._watch.inspect(True)
        self._looking = True

    def _end_look(self) -> None:
        if self._looking:
            self._looking = False
            self._watch.inspect(False, steps=self._count)


class Recording:
    """A window of torch.profiler; the first step of it is not in the trace.

    Args:
        clock: Phases become annotations in the trace.
        path: Where the trace goes.
        steps: Steps to record.
        shapes: With input shapes and types.
        places: With the user's lines.
    """

    def __init__(self, clock: Clock, path: Path, steps: int, *, shapes: bool, places: bool) -> None:
        self._clock = clock
        self._path = path
        self._wanted = steps
        self._recorder = Recorder(path, shapes=shapes, places=places)
        self._wall_ns: list[int] = []
        self._flags: list[tuple[str, ...]] = []
        self._phases_ns: list[dict[str, int]] = []

    def begin(self) -> None:
        """Start recording."""
        self._recorder.start()
        self._clock.annotator = self._recorder

    def take(self, step: Step) -> bool:
        """A step was recorded."""
        self._wall_ns.append(step.wall_ns)
        self._flags.append(tuple(sorted(step.flags)))
        self._phases_ns.append(step.phases_ns)
        done = len(self._wall_ns) >= self._wanted
        if not done:
            self._recorder.step()
        return done

    def abandon(self) -> None:
        """Stop before the window is full; nothing is written."""
        self._clock.annotator = None
        self._recorder.abandon()

    def finish(self) -> Recorded:
        """Stop and write the trace."""
        self._clock.annotator = None
        self._recorder.stop()
        return Recorded(
            path=str(self._path),
            wall_ns=tuple(self._wall_ns),
            flags=tuple(self._flags),
            phases_ns=tuple(self._phases_ns),
        )
