"""A search over a scripted machine: every configuration has a known speed, and nothing is started."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import optuna
from builders import a_loader, a_profile, an_optimizer

from advisor.profiles.facts.profile import RunFacts
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.comparing.ways import LIVE
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.search.search import Search
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space
from advisor.tuners.trial.messages import Slot, SlotMeasured, TrialOutcome

optuna.logging.set_verbosity(optuna.logging.ERROR)


STEP_NS = 10**8


def waiting(share: float | None) -> SlotMeasured:
    """A slot of one step of which so much waits for data; of nothing known where ``None``."""
    if share is None:
        return SlotMeasured()
    return SlotMeasured(wall_ns=(STEP_NS,), phases_ns={"input_wait": int(share * STEP_NS)})


@dataclass
class ScriptedArena:
    """Answers duels from a function of the configuration; nothing is started.

    ``waits`` gives the share (0 to 1) of its steps that waits for data.
    """

    speed: Any
    waits: Any = lambda config: None
    knobs: Any = field(default_factory=lambda: KNOBS)
    sigma: float = 0.01
    threads: int = 1
    step_s: float = 0.01
    quad_s: float = 0.1
    at_once: bool = True
    log: str | None = None
    switches: tuple[str, ...] = ()
    measured: list[dict[str, Value]] = field(default_factory=list)

    def queue_depth(self, config: Mapping[str, Value]) -> int:
        return 0

    def how(self, first: Mapping[str, Value], second: Mapping[str, Value], fresh: bool = False) -> str:
        different = [name for name in first if first[name] != second[name]]
        return LIVE if all(KNOBS[name].live for name in different) else "baton"

    def settled(self, config: Mapping[str, Value]) -> dict[str, Value]:
        return {name: value for name, value in config.items() if not KNOBS[name].live}

    def ratio(self, first: Mapping[str, Value], second: Mapping[str, Value]) -> float:
        self.measured.append(dict(second))
        return math.log(self.speed(second) / self.speed(first))

    def duel(self, first: Mapping[str, Value], second: Mapping[str, Value], **options: Any) -> Duel:
        ratio = self.ratio(first, second)
        message = waiting(self.waits(second))
        ratios, slot = [ratio, ratio * 1.001, ratio], Slot((0.1,))
        return Duel("baton", ratios, [slot], [slot], second_message=message)

    def quads(self, sessions: Any, configs: Any, quads: int, deadline: float, by_work: bool = False) -> Any:
        ratio = self.ratio(*configs)
        message = waiting(self.waits(configs[1]))
        return (
            [ratio + 0.0001 * index for index in range(quads)],
            ([], [Slot((0.1,))]),
            (SlotMeasured(), message),
        )

    def start(self, config: Mapping[str, Value], number: int) -> "ScriptedSession":
        return ScriptedSession()

    def warm_up(self, session: Any, **options: Any) -> None:
        return None


class ScriptedSession:
    alive = True

    def first_step(self) -> float:
        return 0.1

    def stop(self) -> TrialOutcome:
        self.alive = False
        return TrialOutcome("stopped")

    def kill(self) -> None:
        self.alive = False


@dataclass
class Kept:
    trials: list[TrialRecord] = field(default_factory=list)

    def begin(self, trial: TrialRecord, score: float) -> None:
        return None

    def record(self, trial: TrialRecord, **told: Any) -> None:
        self.trials.append(trial)


def a_search(
    speed: Any, choices: dict[str, list[Value]], also: dict[str, Value] | None = None, **options: Any
) -> tuple[Search, ScriptedArena, Kept]:
    """A search; every configuration holds what is ``also`` in it, which is not searched."""
    run = RunFacts(num_threads=1)
    profile = a_profile(loader=a_loader(), optimizers=(an_optimizer(),), run=run)
    present = Configuration({name: values[0] for name, values in choices.items()} | (also or {}))
    space = Space(present, present, choices, [], profile)
    arena, kept = ScriptedArena(speed), Kept()
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    search = Search(arena, space, profile, study, kept, deadline=math.inf, **options)  # type: ignore[arg-type]  # scripted
    return search, arena, kept
