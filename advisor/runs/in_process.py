"""A training loop of the user's own, profiled in the process in which it runs, between two of its steps."""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from advisor.advice.advise import advise, summary
from advisor.base.errors import SituationError, UsageError
from advisor.profiles.derived.ceilings import measure_rates
from advisor.profiles.events import Run
from advisor.profiles.facts.machine import read_machine, with_torch
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.replayed import Replays
from advisor.profiles.hooks.imports import forget, waiting
from advisor.profiles.hooks.model.compilation import Compiling
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.user_lines import user_location
from advisor.profiles.hooks.watch import Watch
from advisor.report.profile_result import ProfileResult
from advisor.result.document import IN_PYTHON, Budget, ProfileData
from advisor.result.header import Target, header_of_run
from advisor.rules import RULES
from advisor.runs.in_process_stages import Division, Seen, Stages, profiler_is_active
from advisor.runs.profile import baseline_of
from advisor.stages.diagnosing import result_findings as data
from advisor.tuners.supervision.isolation import remove

RATES_S = 2.0
NOT_REPLAYED = "the loop runs in your own process, whose state stays as it is"
_active: "list[LoopProfile]" = []


class LoopProfile:
    """Profiles a few steps of the loop in a ``with`` block; made by ``advisor.profile(steps=20)``.

    What is watched is put back exactly as it was when the steps are full, or when the block is left. The
    model, the optimizer, the data and the random state are only looked at.

    Args:
        steps: Steps to profile. Most are watched, a few looked at closely, the last recorded.
        wait: Steps that pass before the warm-up.
        warmup: Steps that pass before the profiled ones.
        marked: Whether ``step()`` is to be called in the block.

    Raises:
        UsageError: A number is out of range (a ValueError).
    """

    def __init__(self, *, steps: int = 20, wait: int = 0, warmup: int = 3, marked: bool = True) -> None:
        for name, value, least in (("steps", steps, 1), ("wait", wait, 0), ("warmup", warmup, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UsageError(f"{name} must be a whole number of at least {least}, got {value!r}")
        self._division = Division(wait + warmup, steps)
        self._marked = marked
        self._marks = 0
        self._entered = self._left = False
        self._undo = ExitStack()
        self._traces = ExitStack()
        self._stages: Stages | None = None
        self._clock: Clock | None = None
        self._seen: Seen | None = None
        self._result: ProfileResult | None = None
        self._target = "notebook"
        self._began = self._seconds = 0.0

    def __enter__(self) -> Self:
        """Begin to watch.

        Raises:
            SituationError: Another profiler is active, or this profile was used before (a RuntimeError).
        """
        if self._entered:
            raise SituationError("this profile was used before", hint="call advisor.profile() again")
        if _active or profiler_is_active():
            raise SituationError("another profiler is active", hint="end it first")
        self._entered = True
        place = user_location()
        if place is not None and Path(place.file).is_file():
            self._target = place.file
        self._began = time.monotonic()
        self._install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take everything off; what the block raised passes.

        Raises:
            SituationError: ``step()`` was never called (a RuntimeError).
            UsageError: The loop had too few steps (a ValueError).
        """
        self._left = True
        try:
            if self._stages is not None and error is None:
                self._stages.end()
        finally:
            self._take_off()
        if error is not None:
            self._traces.close()
            if self._seen is not None:
                self._seen.recorded.clear()
            return
        try:
            self._check()
            self._conclude()
        finally:
            self._traces.close()

    def step(self) -> None:
        """A training step is over. Steps end with the optimizer's update where there is one.

        Raises:
            SituationError: Called outside the block (a RuntimeError).
        """
        if not self._entered or self._left:
            raise SituationError(
                "p.step() was called outside the block of its profile", hint="call it in the loop"
            )
        self._marks += 1
        if self._clock is not None:
            self._clock.mark()
        if self._stages is not None and self._stages.complete:
            self._take_off()

    @property
    def result(self) -> ProfileResult:
        """What was found; there once the steps are full, or after the block.

        Raises:
            SituationError: It is too early, or the block raised before enough was seen (a RuntimeError).
        """
        if self._result is not None:
            return self._result
        if self._stages is not None and self._stages.complete and not self._left:
            self._seen = self._stages.seen
        if self._seen is None or self._seen.profile is None:
            if self._entered and not self._left:
                raise SituationError("the steps are not full yet", hint="read p.result after the block")
            raise SituationError("nothing was profiled", hint="run a training loop in the block first")
        return self._conclude()

    def _install(self) -> None:
        import torch

        machine = with_torch(read_machine(), torch.get_num_threads())
        clock = Clock(self._on_step)
        compiling = Compiling(lambda running: clock.flag("compile"), lambda: clock.steps)
        watch = Watch(Run({}, {}), clock, compiling=compiling)
        folder = Path(tempfile.mkdtemp(prefix="advisor-profile-"))
        self._traces.callback(remove, folder)
        with ExitStack() as undo:
            others = waiting()
            undo.callback(lambda: forget([each for each in waiting() if each not in others]))
            undo.callback(watch.remove)
            watch.install()
            undo.callback(compiling.disarm)
            compiling.arm()
            watch.adopt()
            stages = Stages(watch, clock, machine, folder, self._division)
            undo.callback(stages.abandon)
            _active.append(self)
            undo.callback(_active.remove, self)
            stages.begin()
            self._undo = undo.pop_all()
        self._stages, self._clock = stages, clock
        clock.restart()

    def _on_step(self, step: Step) -> None:
        if self._stages is None or self._clock is None:
            return
        self._stages.take(step)
        if self._stages.complete:
            self._clock.annotator = _Leaving(self._clock, self._take_off)

    def _take_off(self) -> None:
        """Put everything back; never inside an update, whose hooks torch is going through."""
        if self._stages is not None:
            self._seen = self._stages.seen
        self._stages = self._clock = None
        self._undo.close()
        if not self._seconds:
            self._seconds = time.monotonic() - self._began

    def _check(self) -> None:
        if self._marked and not self._marks:
            raise SituationError("p.step() was not called", hint="call it once per training step")
        seen, skipped, steps = self._seen, self._division.skipped, self._division.steps
        if self._result is not None or seen is None or seen.profile is not None:
            return
        if not seen.passed:
            raise SituationError(
                "no training step was seen", hint="one ends with optimizer.step(), else with backward()"
            )
        raise UsageError(
            f"{seen.passed} steps, {skipped + steps} needed (warm-up {skipped} + {steps})",
            hint="`warmup=0, steps=5`, or a longer loop",
        )

    def _conclude(self) -> ProfileResult:
        if self._result is None:
            assert self._seen is not None
            self._result = ProfileResult(self._data(self._seen))
            self._seen = None
        return self._result

    def _data(self, seen: Seen) -> ProfileData:
        found = _complete(seen)
        findings = advise(found, RULES)
        return ProfileData(
            **header_of_run(
                ["profile", IN_PYTHON], Target(path=self._target, kind="objects"), found.machine.as_json()
            ),
            baseline=baseline_of(found),
            profile=data.profile_summary(found, summary=summary(findings, found), notes=seen.notes),
            findings=data.as_data(findings),
            budget=Budget(
                seconds=self._seconds or time.monotonic() - self._began, trials=0, stopped_by="converged"
            ),
        )


class _Leaving:
    """An annotator of the clock that ends the watching with the next phase outside an update."""

    def __init__(self, clock: Clock, leave: Callable[[], None]) -> None:
        self._clock = clock
        self._leave = leave

    def enter(self, phase: str) -> None:
        """A phase begins."""
        if not self._clock.in_update:
            self._clock.annotator = None
            self._leave()

    def leave(self) -> None:
        """A phase that began before has ended."""


def _complete(seen: Seen) -> Profile:
    """Everything that can still be found out once the loop is left alone."""
    assert seen.profile is not None
    found = seen.profile
    try:
        found = seen.whole() or found
    except UsageError as error:
        seen.notes.append(f"what was recorded cannot be read: {error.message}")
    return replace(found, rates=_rates(seen), replays=Replays(refused=(("all", NOT_REPLAYED),)))


def _rates(seen: Seen) -> Rates | None:
    import torch

    try:
        return _rates_with(torch.get_num_threads(), torch.cuda.is_initialized())
    except (MemoryError, OSError, RuntimeError) as error:  # the program may hold all memory there is
        seen.notes.append(f"what the machine can do was not measured: {type(error).__name__}: {error}")
        return None


@cache
def _rates_with(threads: int, cuda: bool) -> Rates:
    """What the machine can do with so many threads: the same for each profile of one process."""
    return measure_rates(limit_s=RATES_S)
