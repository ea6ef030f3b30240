"""A launcher and sessions of a program on paper: they say what real ones do, in time that is counted."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from replayed_answers import taken
from replayed_looks import looked_at
from replayed_program import CACHED, PEAK_BYTES, Config, Effect, Program

from advisor.tuners.knob import Value
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.session import TICK_S, Answer, Session, SessionEnded
from advisor.tuners.mechanisms.compiling import compiles
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.supervision.limits import Limits
from advisor.tuners.trial.messages import Compiled, Facts, Message, Slot, SlotMeasured, TrialOutcome
from advisor.tuners.trial.numerics.numerics_messages import KeepState, Relearn, Relearned, StateKept
from advisor.tuners.trial.served_messages import InputsTaken, TakeInputs, TakeOutputs


@dataclass
class ReplayingLauncher(Launcher):
    """Starts sessions of a ``Program`` in place of processes.

    Attributes:
        now: Seconds that everything so far has taken.
        configs: Of the sessions, in the order of their starts.
        compiled_by: The first that compiled.
        tick_s: After which whoever waits is told so at the latest, as of a real process.
    """

    program: Program = field(default_factory=Program)
    now: float = 0.0
    tick_s: float = TICK_S
    configs: list[dict[str, Value]] = field(default_factory=list)
    compiled_by: "ReplayedSession | None" = None
    live: list["ReplayedSession"] = field(default_factory=list)
    source: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.source = random.Random(self.program.seed)

    def __enter__(self) -> "ReplayingLauncher":
        return self

    def __exit__(self, *exception: object) -> None:
        for session in list(self.live):
            session.kill()

    def start(self, number: int, config: Config, present: Config, **options: Any) -> "ReplayedSession":
        """A process that has not made its first step; seconds pass when somebody waits for that."""
        self.launches += 1
        self.configs.append(dict(config))
        session = ReplayedSession(self, {**present, **config}, dict(present), options)
        self.live.append(session)
        return session

    def take(self, seconds: float, phase: str) -> None:
        """Let time pass, during which the user may ask to stop."""
        while seconds > self.tick_s:
            self.now += self.tick_s
            self.waiting(phase, self.tick_s)
            seconds -= self.tick_s
        self.now += seconds
        self.waiting(phase, seconds)


class ReplayedSession(Session):
    """One process of the program, as ``Session`` shows it."""

    def __init__(
        self, launcher: ReplayingLauncher, config: Config, present: Config, options: Mapping[str, Any]
    ) -> None:
        self._of = launcher
        self._config = dict(config)
        self._present = dict(present)
        self._options = options
        self._began = launcher.now
        self._start_s = launcher.program.startup_s * launcher.program.slower(launcher.now)
        self._pace = math.exp(launcher.source.gauss(0.0, launcher.program.between))
        self._made = self._made_so = 0  # steps, and those since it was switched
        self._answered = 0  # requests whose outputs were taken
        self._busy_s = self._beside_s = 0.0  # of CPUs: this process, and others beside it
        self._part: str | None = None
        self._marred = 1.0
        self._lives = True
        self._left: TrialOutcome | None = None
        self._peak = 0.0
        self.startup_s: float | None = None
        self.start_cpus = launcher.program.start_cpus
        self.last = SlotMeasured()
        self.folder = launcher.folder / f"{launcher.launches:05d}"

    @property
    def alive(self) -> bool:
        return self._lives

    @property
    def outcome(self) -> TrialOutcome | None:
        return self._left

    def ready(self) -> bool:
        """It waits before its first batch as told, unless the program loads in its own way."""
        program, waits = self._of.program, bool(self._options.get("waits"))
        self._wait(max(0.0, self._began + self._start_s - self._of.now), "start")
        if not program.loads_late:
            self._step()
        return waits and program.loads_late

    def first_step(self) -> float:
        compile_s, limit_s = self._compile_s, self._of.limits.compile_s
        self.startup_s = self._start_s + compile_s
        waited_s = 0.0 if self._options.get("waits") else min(limit_s, compile_s)  # it begins after the wait
        start_s = max(0.0, self._began + self._start_s + waited_s - self._of.now)
        self._wait(start_s + min(limit_s, compile_s) - waited_s, "start")
        if compile_s > limit_s:
            self._end()
            raise TrialFailed(Failure("timeout", f"no answer for {limit_s:.0f} s in phase compile"))
        if compiles(self._config) and self._of.compiled_by is None:
            self._of.compiled_by = self
        self._step()
        return self.startup_s

    def slot(
        self,
        steps: int,
        *,
        drop: int = 1,
        config: Config | None = None,
        limit_s: float = 60.0,
    ) -> Slot:
        if config is not None and not config.items() <= self._config.items():
            self._config.update(config)
            self._made_so = 0
        for _ in range(drop):
            self._step()
        spent, busy_s, beside_s = list[float](), self._busy_s, self._beside_s
        while len(spent) < steps and sum(spent) <= limit_s:
            spent.append(self._step())
        refused = dict(each.refuses for each in self._effects if each.refuses is not None)
        self.last = SlotMeasured(
            tuple(round(1e9 * each) for each in spent),
            phases_ns={
                name: round(1e9 * share * sum(spent))
                for name, share in self._of.program.parts(self._config).items()
            },
            applied=tuple(name for name in self._changed if name not in refused),
            refused=refused,
        )
        work = float(self._config.get("serving_batch", self._config.get("batch_size", 32)))
        return Slot(tuple(spent), work, self._busy_s - busy_s, other_cpu_s=self._beside_s - beside_s)

    def window(
        self,
        steps: int,
        *,
        drop: int,
        config: Config | None = None,
        limit_s: float = 600.0,
    ) -> Slot:
        if self.startup_s is None:
            self.first_step()
        return self.slot(steps, drop=drop, config=config, limit_s=limit_s)

    def facts(self) -> Facts:
        assert self._lives, "nothing can be asked of a process that has ended"
        program = self._of.program
        profile = replace(program.profile, memory=replace(program.memory, host_peak_bytes=round(self._peak)))
        return Facts(profile, losses=self._losses)

    @property
    def limits(self) -> Limits:
        return self._of.limits

    def tell(self, command: Message) -> None:
        """Nothing that is not answered changes a model."""

    def ask(self, command: Message, answer: type[Answer], wait_s: float) -> Answer:
        """A model can repeat its steps from a kept state, and be looked at where it says what that shows."""
        if isinstance(command, KeepState) and self._of.program.repeats:
            self._step()
            return cast(Answer, StateKept(None, PEAK_BYTES // 8))
        if isinstance(command, KeepState):
            return cast(Answer, StateKept("its state is not kept"))
        if isinstance(command, Relearn):
            return cast(Answer, self._relearned(command))
        if isinstance(command, TakeOutputs):
            wrong = sum(each.wrong for each in self._effects)
            program, samples = self._of.program, self._of.program.samples
            if command.reference:
                known = any(each.saturates for each in self._effects)
                samples, wrong = samples if known else 0, 0.0
            once = program.inputs_once or program.feeds_itself
            other = round(1e9 * wrong) if program.feeds_itself and not command.inputs else 0
            outputs = taken(command, samples, wrong, self._answered + other if once else None)
            self._answered += 0 if command.inputs else outputs.count
            return cast(Answer, outputs)
        if isinstance(command, TakeInputs):
            Path(command.path).parent.mkdir(parents=True, exist_ok=True)
            Path(command.path).touch()
            return cast(Answer, InputsTaken(min(self._of.program.samples, command.most)))
        if self._of.program.without is None:
            raise TrialFailed(Failure("environment", f"a replayed program cannot {type(command).__name__}"))
        return cast(Answer, looked_at(self, command))

    @property
    def ops(self) -> Mapping[str, float]:
        return self._of.program.ops

    def leave_out(self, part: str | None) -> None:
        """From the next step on."""
        self._marred = self._of.program.after_without if self._part is not None else self._marred
        self._part = part

    def steps_ns(self, steps: int, seconds: float = 0.0, limit_s: float = math.inf) -> tuple[int, ...]:
        """Make so many steps, and for so long, but no longer than the limit; what each took."""
        spent: list[float] = []
        while (len(spent) < steps or sum(spent) < seconds) and sum(spent) < limit_s:
            spent.append(self._step())
        return tuple(round(1e9 * each) for each in spent)

    def phases_ns(self, spent: int) -> dict[str, int]:
        """The parts of steps that took so long together; of a program without any all is forward."""
        parts = self._of.program.parts(self._config) or {"forward": 1.0}
        return {name: round(share * spent) for name, share in parts.items()}

    def _relearned(self, command: Relearn) -> Relearned:
        """The first losses once more, as a fresh process would have them under the same configuration."""
        kept, self._config = self._config, {**self._config, **command.config}
        for _ in range(command.steps):
            self._step()
        losses = self._losses_of(command.steps, command.seed, command.nudge)
        refused = dict(each.refuses for each in self._effects if each.refuses is not None)
        self._config = kept
        steps = command.steps
        return Relearned(
            losses, (1.0,) * steps, ("optimizer",) * steps, ((),) * steps, None, refused, (),
            round(self._peak),
        )  # fmt: skip

    def settle(self, present: Config) -> None:
        self._present = dict(present)
        self._config = {**present, **self._config}

    def stop(self) -> TrialOutcome:
        self._end()
        self._left = self._left or self._outcome_of("stopped")
        return self._left

    def kill(self) -> None:
        self._end()

    def _end(self) -> None:
        self._lives = False
        if self in self._of.live:
            self._of.live.remove(self)

    def _wait(self, seconds: float, phase: str) -> None:
        try:
            self._of.take(seconds, phase)
        except BaseException:
            self._end()
            raise

    def _step(self) -> float:
        """One step, unless the program ends or fails instead; its seconds."""
        program = self._of.program
        if program.steps is not None and self._made >= program.steps:
            self._left = self._outcome_of("ended")
            self._end()
            raise SessionEnded(self._left)
        effects = self._effects
        for effect in effects:
            if effect.fails is not None and self._made_so >= effect.after:
                self._fail(effect, effect.fails)
        slower = program.slower(self._of.now)
        seconds = slower * program.step_s * self._pace * math.exp(self._of.source.gauss(0.0, program.noise))
        for effect in effects:
            seconds *= effect.step * (effect.one_in_fifty if self._made % 50 == 49 else 1.0)
        seconds *= self._marred * (program.without or {}).get(self._part or "", 1.0)
        load = program.load(self._of.now)
        self._busy_s += seconds
        seconds *= 1 + load
        self._beside_s += load * seconds
        self._wait(seconds, "steps")
        self._made += 1
        self._made_so += 1
        grown = sum(effect.grows_bytes for effect in effects) * self._made
        self._peak = max(self._peak, PEAK_BYTES * math.prod(each.memory for each in effects) + grown)
        return seconds

    def _fail(self, effect: Effect, failure: Failure) -> None:
        failed = self._of.program.failed
        if effect.times is not None and failed.get(effect, 0) >= effect.times:
            return
        failed[effect] = failed.get(effect, 0) + 1
        self._wait(effect.takes_s, "steps")
        self._end()
        raise TrialFailed(failure)

    @property
    def _effects(self) -> list[Effect]:
        return self._of.program.of(self._config)

    @property
    def _changed(self) -> list[str]:
        return [name for name, value in self._config.items() if self._present.get(name) != value]

    @property
    def _compile_s(self) -> float:
        if not compiles(self._config):
            return 0.0
        cached = self._of.compiled_by not in (None, self)
        slower = self._of.program.slower(self._began)
        return slower * self._of.program.compile_s * (CACHED if cached else 1.0)

    @property
    def _losses(self) -> tuple[float, ...]:
        """Of the first steps: they fall, and differ with the seed, by a rounding, and by what is wrong."""
        seed, nudge = self._options.get("seed_offset", 0), self._options.get("nudge", 0)
        return self._losses_of(self._made, seed, nudge)

    def _losses_of(self, steps: int, seed: int, nudge: int) -> tuple[float, ...]:
        off = 1.0 + sum(effect.loss for effect in self._effects) + 1e-3 * seed + 1e-7 * nudge
        return tuple(2.3 * 0.98**step * off for step in range(steps))

    def _outcome_of(self, state: Literal["ended", "stopped"]) -> TrialOutcome:
        compiled, once = self._compile_s, int(self._compile_s > 0)
        return TrialOutcome(
            state, applied=self.last.applied, refused=self.last.refused, steps=self._made,
            startup_s=self.startup_s, losses=self._losses, grad_norms=(1.0,) * self._made,
            peak_bytes=round(self._peak), compile=Compiled(compiled, once),
        )  # fmt: skip
