"""A program that was recorded, in place of one that runs: sessions whose steps are cut from step series.

Each session plays one recorded process from a random place after its warm-up on, again and again; a window
begins where the process began. Both arms of a live comparison therefore come from one process, in the
order in which they take turns, and those of a process pair from two different ones. Two that run at once
were recorded one soon after the other, for the pace of a machine drifts over minutes; they are still
independent here, while in truth the same other load disturbs both: the replay is the noisier. Time is
simulated, it passes with steps and start-ups alone.
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import cast

from advisor.profiles.facts.machine import Machine
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.measure import median
from advisor.tuners.knob import AnyKnob, Value
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.supervision.limits import Limits
from advisor.tuners.trial.messages import Facts, Message, Slot, SlotMeasured, TrialOutcome
from advisor.tuners.trial.numerics.numerics_messages import StateKept
from advisor.tuners.trial.spec import Target
from benchmarks.fixed_cost import ALONE, BOTH
from benchmarks.record_series import Recorded, Series

START_TIMES = Path(__file__).parent / "results" / "fixed_cost.json"
NEAR = 2  # places in the order of recording, between processes that run at once
LEAST_PROCESSES = 4  # the baseline's, a pair, and the one before
MACHINE = Machine(cpus_allowed=2, physical_cores=2, memory_bytes=2**33, shm_bytes=2**32)

Factor = Callable[[Mapping[str, Value]], float]


class Clock:
    """Simulated seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Seconds since the beginning of the replay."""
        return self.now


@dataclass(frozen=True)
class Steps:
    """One recorded process step by step; what was counted by slot is spread evenly over the slot's time.

    Attributes:
        first: Place of the first step after warm-up.
    """

    startup_s: float
    first: int
    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]
    other_cpu_s: tuple[float, ...]
    throttled_s: tuple[float, ...]

    @classmethod
    def of(cls, recorded: Recorded) -> "Steps":
        """Lay the slots of a recorded process end to end."""
        slots = recorded.slots

        def spread(count: Callable[[Slot], float]) -> tuple[float, ...]:
            return tuple(count(slot) * value / sum(slot.step_s) for slot in slots for value in slot.step_s)

        return cls(
            recorded.startup_s,
            sum(len(slot.step_s) for slot in slots[: recorded.warm]),
            tuple(chain.from_iterable(slot.step_s for slot in slots)),
            spread(lambda slot: slot.cpu_s),
            spread(lambda slot: slot.other_cpu_s),
            spread(lambda slot: slot.throttled_s),
        )


@cache
def start_beside_another() -> float:
    """How many times as long a start takes beside that of another process, as measured."""
    times = json.loads(START_TIMES.read_text())["times"]
    alone, both = (float(times[name]["median_s"]) for name in (ALONE, BOTH))
    return max(1.0, both / alone)


class Program:
    """A recorded series, ready to be replayed."""

    def __init__(self, series: Series) -> None:
        if len(series.processes) < LEAST_PROCESSES:
            held = len(series.processes)
            raise ValueError(f"{series.file} holds {held} processes, {LEAST_PROCESSES} are needed")
        self.name = series.workload
        self.loaded = series.loaded
        self.threads = series.threads
        self.processes = [Steps.of(process) for process in series.processes]
        run = RunFacts(num_threads=series.threads)
        self.facts = Facts(Profile(MACHINE, run=run))

    @property
    def step_s(self) -> float:
        """Median seconds of a step over all processes."""
        return median([median(each.wall_s[each.first :]) for each in self.processes])

    @property
    def shortest(self) -> int:
        """Steps of the shortest process, warm-up apart."""
        return min(len(each.wall_s) - each.first for each in self.processes)


@dataclass
class ReplayLauncher:
    """Starts sessions that play recorded processes; each start draws another one.

    Attributes:
        factor: What a configuration makes of the time of a step.
        beside: How many times as long a start takes beside that of another process. Two are granted no more
            than the time of two where another program keeps a CPU busy.
    """

    program: Program
    clock: Clock
    source: random.Random
    factor: Factor = lambda config: 1.0
    beside: float = field(init=False)
    limits: Limits = field(default_factory=Limits)
    launches: int = 0
    _sessions: "list[tuple[int, ReplaySession]]" = field(default_factory=list)

    def __post_init__(self) -> None:
        self.beside = 2.0 if self.program.loaded else start_beside_another()

    @property
    def target(self) -> Target:
        """The program, by its name alone."""
        return Target("script", self.program.name)

    def arena(self, knobs: Mapping[str, AnyKnob]) -> Arena:
        """An arena whose sessions are replayed."""
        return Arena(cast(Launcher, self), knobs, {}, clock=self.clock.monotonic)

    def start(
        self,
        number: int,
        config: Mapping[str, Value],
        present: Mapping[str, Value],
        *,
        training_dataset: int | None = None,
        learning_steps: int = 0,
        seed_offset: int = 0,
        nudge: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> "ReplaySession":
        """Draw a process that neither plays now nor was drawn last, near those that play."""
        self.launches += 1
        last = self._sessions[-1:]
        self._sessions = [each for each in self._sessions[:-1] if each[1].alive] + last
        taken = {place for place, _ in self._sessions}
        playing = [place for place, each in self._sessions if each.alive]
        free = [n for n in range(len(self.program.processes)) if n not in taken]
        near = [n for n in free if any(abs(n - place) <= NEAR for place in playing)]
        place = self.source.choice(near or free)
        session = ReplaySession(self, self.program.processes[place], config, learning_steps)
        self._sessions.append((place, session))
        return session

    def together(self, started: float) -> bool:
        """Whether several processes that are alive started at this moment."""
        return sum(each.started == started for _, each in self._sessions if each.alive) > 1


class ReplaySession:
    """One process as ``advisor.tuners.launching.session.Session`` shows it."""

    folder = Path("replayed")
    outcome: TrialOutcome | None = None

    def __init__(
        self, launcher: ReplayLauncher, steps: Steps, config: Mapping[str, Value], learning_steps: int
    ) -> None:
        self._launcher = launcher
        self._steps = steps
        self._config = dict(config)
        self._losses = (1.0,) * learning_steps
        self._place = launcher.source.randrange(steps.first, len(steps.wall_s))
        self._made = 0
        self.started = launcher.clock.now
        self.alive = True
        self.startup_s: float | None = None
        self.start_cpus: float | None = None
        self.last = SlotMeasured()

    @property
    def limits(self) -> Limits:
        """As of any session."""
        return self._launcher.limits

    def ask(self, command: Message, answer: type[StateKept], wait_s: float) -> StateKept:
        """A recording has no state that could be kept."""
        return StateKept("its state is not kept")

    def first_step(self) -> float:
        """Let the recorded start-up pass; it takes longer beside that of another process."""
        launcher = self._launcher
        self.startup_s = self._steps.startup_s * (launcher.beside if launcher.together(self.started) else 1.0)
        launcher.clock.now = max(launcher.clock.now, self.started + self.startup_s)
        return self.startup_s

    def slot(
        self,
        steps: int,
        *,
        drop: int = 1,
        config: Mapping[str, Value] | None = None,
        limit_s: float = 60.0,
    ) -> Slot:
        """The next steps after ``drop`` others: at least one, and no more than fit into ``limit_s``."""
        if config is not None:
            self._config = dict(config)
        factor = self._launcher.factor(self._config)
        for _ in range(drop):
            self._step(factor)
        places: list[int] = []
        spent = 0.0
        while len(places) < steps and spent <= limit_s:
            place = self._step(factor)
            places.append(place)
            spent += factor * self._steps.wall_s[place]
        return self._measured(places, factor)

    def window(self, steps: int, *, drop: int, limit_s: float = 600.0) -> Slot:
        """The first steps of the process."""
        self._place = 0
        self.first_step()
        return self.slot(steps, drop=drop, limit_s=limit_s)

    def facts(self) -> Facts:
        """A script of which no more is known than that it trains."""
        return self._launcher.program.facts

    def settle(self, present: Mapping[str, Value]) -> None:
        """The program's own settings; nothing here depends on them."""

    def stop(self) -> TrialOutcome:
        """End it; what it leaves is what a trial leaves."""
        self.alive = False
        self.outcome = TrialOutcome(
            "stopped",
            steps=self._made,
            startup_s=self.startup_s,
            losses=self._losses,
            grad_norms=self._losses,
        )
        return self.outcome

    def kill(self) -> None:
        """End it."""
        self.alive = False

    def _step(self, factor: float) -> int:
        """Let one step pass; its place in the series. After the last one comes the first after warm-up."""
        place = self._place
        self._place = place + 1 if place + 1 < len(self._steps.wall_s) else self._steps.first
        self._launcher.clock.now += factor * self._steps.wall_s[place]
        self._made += 1
        return place

    def _measured(self, places: list[int], factor: float) -> Slot:
        steps = self._steps
        slot = Slot(
            step_s=tuple(factor * steps.wall_s[place] for place in places),
            cpu_s=sum(factor * steps.cpu_s[place] for place in places),
            other_cpu_s=sum(factor * steps.other_cpu_s[place] for place in places),
            throttled_s=sum(factor * steps.throttled_s[place] for place in places),
        )
        wall_ns = tuple(round(value * 1e9) for value in slot.step_s)
        self.last = SlotMeasured(wall_ns, applied=tuple(sorted(self._config)))
        return slot
