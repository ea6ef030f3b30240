"""Whole runs of ``tune`` on a program that exists on paper: no process, and time that is only counted.

The program is a model: a step time, factors for settings, noise from a fixed seed, seconds to start and to
compile, settings that it refuses or that make it fail, memory that grows. Its sessions say what those of
real trials say, and a clock goes on by what they would have taken. So a run of minutes takes a moment, and
two runs with the same seed are the same.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from remembered_progress import Told
from replayed_program import Program
from replayed_sessions import ReplayingLauncher

from advisor.base.settings import Settings, TargetRequest
from advisor.result.document import ResultData
from advisor.runs.tune import tune
from advisor.stages.launching import Caller
from advisor.tuners.benches.engine import Engine
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.trial.spec import Target


@dataclass
class Replay:
    """What came of a run.

    Attributes:
        said: All that the user was told.
        launcher: Knows what was started; nothing lives any more.
        when: Seconds and launches when it was told.
    """

    result: ResultData
    said: list[str]
    launcher: ReplayingLauncher
    when: list[tuple[float, int]] = field(default_factory=list)

    def verdict(self) -> tuple[float, int]:
        """Seconds and launches after which a change was confirmed for the first time, and nothing undid it.

        Raises:
            StopIteration: None ever was.
        """
        return next(
            (trial.confirmed_s, trial.confirmed_launches)
            for trial in self.result.trials
            if trial.confirmed_s is not None and trial.confirmed_launches is not None
        )


class Placing(Engine, Protocol):
    """An engine whose nodes' time runs beside a launcher's."""

    here: ReplayingLauncher | None


def replayed(
    program: Program,
    folder: Path,
    *,
    interrupt_at: str | None = None,
    engine: Placing | None = None,
    taken_s: float = 0.0,
    **options: Any,
) -> Replay:
    """Run ``tune`` on a program.

    Args:
        program: What is tuned.
        folder: For what the run writes.
        interrupt_at: The user presses Ctrl-C when told something that holds this.
        engine: Has benches on other nodes.
        taken_s: How long another tuner has the device before.
        options: Of ``Settings``; a budget of two minutes unless given.

    Raises:
        AdvisorError: As ``tune`` does.
    """
    launcher = ReplayingLauncher(Target("module", "train"), folder, program=program)
    told = Told(interrupt_at, lambda: (launcher.now, launcher.launches))

    def launching(settings: Settings, trials: Path, caller: Caller) -> Launcher:
        launcher.waiting = caller.waiting
        launcher.now, launcher.waited_s = launcher.now + taken_s, taken_s
        return launcher

    settings = Settings(target=TargetRequest(kind="module", name="train"), **{"budget_s": 120.0, **options})
    if engine is not None:
        engine.here = launcher
    result = tune(settings, told, launching=launching, clock=lambda: launcher.now, engine=engine)
    assert not launcher.live, "a process is left"
    return Replay(result, told.said, launcher, told.when)
