"""What a program is measured on: its launcher, what its unchanged run showed, the arena of comparisons."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.base.errors import TargetError, UsageError
from advisor.base.settings import Clock, Progress, Settings, Value
from advisor.profiles.facts.profile import Profile
from advisor.stages.asked_limits import within_limits
from advisor.stages.baseline import Baseline, run_baseline
from advisor.stages.diagnosing.diagnosis import Diagnosis
from advisor.stages.launching import Caller, open_launcher
from advisor.stages.target_failures import target_error
from advisor.stages.thread_collapse import ThreadsCollapsed, told, with_threads
from advisor.tuners.benches.crew import Crew
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.memory_duel import MemoryArena
from advisor.tuners.comparing.request_duel import LatencyArena, RequestArena
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import Interrupted
from advisor.tuners.space.memory_model import memory_limit
from advisor.tuners.space.space import build_space
from advisor.tuners.supervision.failures import OutOfTime, TrialFailed

ARENAS: dict[str, type[Arena]] = {
    "memory": MemoryArena, "latency": LatencyArena, "requests": RequestArena,
}  # fmt: skip
ENDED_BY = 0.9  # of the time by which the budget may be exceeded
Launching = Callable[[Settings, Path, Caller], AbstractContextManager[Launcher]]  # as ``open_launcher``


@dataclass(frozen=True)
class Bench:
    """Starts a program and compares its settings.

    Attributes:
        settings: What is run, the budget, and what is fixed.
        began: When the budget began, by the clock of the arena.
    """

    settings: Settings
    caller: Caller
    launcher: Launcher
    arena: Arena
    began: float

    @property
    def progress(self) -> Progress:
        """Is told what happens."""
        return self.caller.progress

    @property
    def clock(self) -> Clock:
        """Seconds, monotonic."""
        return self.arena.clock

    @property
    def deadline(self) -> float:
        """When the budget ends, by the clock."""
        return self.began + self.settings.budget_s

    @property
    def spent_s(self) -> float:
        """Seconds since the budget began."""
        return self.clock() - self.began

    @property
    def left_s(self) -> float:
        """Seconds until the budget ends."""
        return self.settings.budget_s - self.spent_s

    @property
    def end(self) -> float:
        """When a run must have ended, by the clock: a little is left to end its processes."""
        return self.deadline + ENDED_BY * self.settings.grace_s

    @property
    def room_s(self) -> float:
        """Seconds until a run must have ended."""
        return self.end - self.clock()

    def end_in_time(self, least_s: float = 0.0) -> None:
        """From now on whoever waits for a process when the run must have ended fails with ``OutOfTime``.

        Args:
            least_s: Seconds that it may take, however small the budget.
        """
        waiting, end = self.launcher.waiting, max(self.end, self.began + least_s)

        def wait(what: str, seconds: float) -> None:
            waiting(what, seconds)
            if self.clock() > end:
                raise OutOfTime("for the rest of it")

        self.launcher.waiting = wait

    def start(self) -> Running:
        """A fresh process of the program with nothing changed but what is fixed."""
        return self.launcher.start(0, self.settings.fixed, {})

    def diagnosis(
        self, deadline: float, config: Mapping[str, Value] | None = None, **options: Any
    ) -> Diagnosis:
        """A close look at the program, as it is or under a configuration.

        Args:
            deadline: By the clock; no further stage begins then.
            config: Of every knob; ``None`` for the program as it is.
            options: Of ``Diagnosis``.
        """
        start = self.start if config is None else lambda: self.arena.start(config, 0)
        return Diagnosis(start, self.arena, deadline, self.progress, self.clock, **options)


@dataclass(frozen=True)
class MeasuredBench(Bench):
    """One on which the program has run unchanged: the arena knows what comparisons of it need.

    Attributes:
        crew: This bench and those on other nodes.
    """

    baseline: Baseline
    crew: Crew = field(default_factory=lambda: Crew(time.monotonic))

    @property
    def profile(self) -> Profile:
        """What is known of the program as it is."""
        return self.baseline.profile

    @property
    def on_device(self) -> bool:
        """Whether the program runs on a GPU."""
        return self.profile.device.startswith("cuda")

    def memory_problem(self, peaks: Sequence[int]) -> str | None:
        """Says that the highest of some peaks, in bytes, is more than may be used, if that is so."""
        limit, peak = memory_limit(self.profile, self.settings.max_memory), max(peaks, default=0)
        if limit is None or peak <= limit:
            return None
        return f"its peak memory of {peak / 2**20:.0f} MiB exceeds {limit / 2**20:.0f} MiB"

    def warn_of_the_baseline(self) -> None:
        """Tell what about the unchanged program limits what can be found."""
        most, peak = self.settings.max_memory, self.profile.peak_bytes
        if most is not None and peak > most:
            told = f"{peak / 2**20:.0f} MiB, more than the {most / 2**20:.0f} MiB of --max-memory"
            self.caller.warn(f"the unchanged program uses {told}: only what uses less can be recommended")
        if self.baseline.disturbance is not None:
            self.caller.warn(self.baseline.disturbance)

    def closer_look(self, deadline: float) -> Diagnosis:
        """A close look at the program as it is, in the process that was measured, as long as that lives."""
        baseline = self.baseline
        if baseline.session is None:
            return self.diagnosis(deadline)
        steps = [spent for slot in baseline.slots for spent in slot.step_s]
        return self.diagnosis(
            deadline, session=baseline.session, earlier=steps, phases=baseline.profile.phases
        )

    def learn(self, profile: Profile) -> None:
        """Take up what is known of the program from now on, and so its own setting of every knob.

        Raises:
            UsageError: A knob that was named or fixed does not exist or cannot apply.
        """
        settings = self.settings
        space = build_space(
            KNOBS, within_limits(profile, settings), named=settings.knobs, fixed=settings.fixed
        )
        self.baseline.profile, self.arena.present = profile, space.own
        self.arena.fixed = dict(settings.fixed)
        self.arena.switches = [
            name for name, knob in KNOBS.items() if not knob.live and knob.fixed_in(profile) is None
        ]
        if self.baseline.session is not None:
            self.baseline.session.settle(space.own)


@contextmanager
def open_bench(
    settings: Settings,
    folder: Path,
    caller: Caller,
    *,
    began: float,
    arena: Callable[..., Arena] | None = None,
    launching: Launching = open_launcher,
    clock: Clock = time.monotonic,
) -> Iterator[Bench]:
    """Open a launcher and an arena for the target of ``settings``.

    Args:
        settings: What is run and for how long, and what is fixed.
        folder: For logs of processes; private to the user.
        caller: Is told what happens, and may stop.
        began: When the run began, by the clock; waiting for the device does not count.
        arena: Makes the arena, as the class does; by default that of the objective.
        launching: Opens the launcher.
        clock: Seconds, monotonic, by which the budget is spent.

    Raises:
        TrialFailed: A workload cannot be loaded.
        Interrupted: The user asked to stop.
        EnvironmentProblem: Another tuner has the device for longer than the budget.
    """
    with launching(settings, folder, caller) as launcher:
        launcher.limits.start_s = max(launcher.limits.start_s, settings.budget_s / 2)
        kind = arena or ARENAS.get(settings.objective, Arena)
        made = kind(launcher, KNOBS, {}, fixed_warmup=settings.warmup, clock=clock)
        if isinstance(made, RequestArena):
            made.limit_s = settings.latency_limit_s
        yield Bench(settings, caller, launcher, made, began + launcher.waited_s)


def run_unchanged(bench: Bench, crew: Crew | None = None, *, fewer_threads: bool = False) -> MeasuredBench:
    """Run the program on a bench with nothing changed but what is fixed.

    Args:
        bench: In this process.
        crew: All benches; without one there is no other.
        fewer_threads: Where threads collapse under other load, compute with fewer, here and in all that is
            compared with it: its ``settings`` tell.

    Raises:
        TargetError: It fails, has no training step, or ends too early.
        UsageError: The budget is below one run of it, or a fixed knob does not act.
        Interrupted: The user asked to stop.
    """
    bench.caller.progress.say("running it unchanged")
    settings = bench.settings
    try:
        baseline = run_baseline(bench.launcher, bench.arena, settings, unless_collapsed=fewer_threads)
    except ThreadsCollapsed as found:
        baseline, settings = _run_with_fewer(bench, found)
    baseline.teach(bench.arena)
    crew = crew or Crew(bench.clock)
    measured = MeasuredBench(settings, bench.caller, bench.launcher, bench.arena, bench.began, baseline, crew)
    measured.learn(baseline.profile)
    return measured


def _run_with_fewer(bench: Bench, found: ThreadsCollapsed) -> tuple[Baseline, Settings]:
    """Run a program whose threads collapse with fewer of them, as all that is compared with it will."""
    settings = with_threads(bench.settings, found.room)
    bench.progress.say("running it with fewer threads: they collapse under other load")
    try:
        baseline = run_baseline(bench.launcher, bench.arena, settings)
    except UsageError:  # the program decides it by itself
        return run_baseline(bench.launcher, bench.arena, bench.settings), bench.settings
    bench.caller.warn(told(found.step_s, found.room, baseline.step_s))
    return baseline, settings


@contextmanager
def failures_told(command: str, interrupted: str, of: Diagnosis | None = None) -> Iterator[None]:
    """Tell failures of the unchanged program as the user's own.

    Args:
        command: Of advisor, for hints.
        interrupted: Before what an interrupt came.
        of: Has the process whose last words say more.

    Raises:
        TargetError: The program failed, or the user interrupted.
    """
    try:
        yield
    except TrialFailed as failed:
        session = None if of is None else of.session
        raise target_error(failed.failure, session, command) from None
    except Interrupted:
        raise TargetError(f"interrupted before {interrupted}", code="interrupted") from None
