"""Where a worker measures: its own baseline once, then one configuration after another against it."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from advisor import assemble
from advisor.advise import advise
from advisor.baseline import Baseline, run_baseline, target_error
from advisor.batches import Batches
from advisor.errors import TargetError
from advisor.keeping import as_trial
from advisor.launching import make_launcher, request_digest
from advisor.outcome import Outcome
from advisor.profiles.machine import Machine
from advisor.result import ResultData, Trial
from advisor.rules import RULES
from advisor.searched import searched_space
from advisor.settings import Progress, Settings
from advisor.tuners.duel import Arena
from advisor.tuners.failures import TrialFailed
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launch import Launcher
from advisor.tuners.memory_duel import MemoryArena
from advisor.tuners.race import Race
from advisor.tuners.record import TrialRecord
from advisor.tuners.search import StoppedBy
from advisor.tuners.session import Interrupted
from advisor.tuners.space import Space

UNCONFIRMED = "workers only measure; `advisor tune --knob` confirms what they found on fresh processes"


class Bench(Protocol):
    """What a worker needs of the place where it measures."""

    def open(self) -> tuple[Machine, Space]:
        """Measure the baseline; the machine as the program sees it, and what may be tried here.

        Raises:
            TargetError: The target fails although nothing was changed.
        """

    def measure(self, record: TrialRecord, deadline: float) -> Trial:
        """Measure one configuration against the baseline of this machine.

        Raises:
            TrialFailed: It failed, or gave what must not be ranked.
        """

    def result(self, trials: list[Trial], stopped_by: StoppedBy) -> ResultData:
        """What is known so far, as a result that recommends nothing."""

    def close(self) -> None:
        """End every process."""


@dataclass
class TargetBench:
    """Measures the target of the settings, by the comparisons of a search.

    Attributes:
        folder: Where logs of trials lie (0700).
        waiting: Called while waiting; may raise ``Interrupted``.
    """

    settings: Settings
    study: str
    folder: Path
    progress: Progress
    waiting: Callable[[str, float], None]
    began: float = field(default_factory=time.monotonic)
    _stack: ExitStack = field(default_factory=ExitStack)
    _warnings: list[str] = field(default_factory=list)
    _launcher: Launcher = field(init=False)
    _arena: Arena = field(init=False)
    _baseline: Baseline = field(init=False)
    _batches: Batches = field(init=False)
    _space: Space = field(init=False)
    _race: Race = field(init=False)

    def open(self) -> tuple[Machine, Space]:
        """Measure the baseline."""
        settings = self.settings
        launcher = make_launcher(settings, self.folder, self._stack, self.waiting, self._warn)
        self._launcher = self._stack.enter_context(launcher)
        self._arena = (MemoryArena if settings.objective == "memory" else Arena)(launcher, KNOBS, {})
        try:
            baseline = run_baseline(launcher, self._arena, settings)
        except TrialFailed as failed:
            raise target_error(failed.failure, None, "worker") from None
        except Interrupted:
            raise TargetError("interrupted before the baseline was measured", code="interrupted") from None
        self._baseline = baseline
        self._arena.training_dataset = baseline.profile.loader.dataset if baseline.profile.loader else None
        baseline.teach(self._arena)
        self._batches = Batches(settings, self.progress)
        self._space = searched_space(settings, self._batches, baseline.profile, 0.0)
        self._arena.present = self._space.own
        self._race = Race(self._arena)
        if baseline.session is not None:
            baseline.session.settle(self._space.own)
            self._race.adopt(self._space.present, baseline.session)
        return baseline.profile.machine, self._space

    def measure(self, record: TrialRecord, deadline: float) -> Trial:
        """Measure one configuration against the baseline."""
        self._arena.log = None
        try:
            estimate = self._race.run(dict(self._space.present), record.config, record, deadline)
        finally:
            record.log = self._arena.log
        if record.refused:
            record.state = "pruned"
        else:
            record.against_baseline = estimate
        run = self._baseline.profile.run
        return as_trial(record, bool(run and run.samples_per_step))

    def result(self, trials: list[Trial], stopped_by: StoppedBy) -> ResultData:
        """What is known so far."""
        present = dict(self._space.present)
        return assemble.result(
            self.settings,
            self._baseline,
            self._space,
            Outcome(present, reason=UNCONFIRMED),
            [as_trial(self._baseline.as_record(present), True), *trials],
            self._space.not_tried,
            self._warnings,
            self.study,
            digest=request_digest(self.settings.target),
            launches=self._launcher.launches,
            stopped_by=stopped_by,
            seconds=time.monotonic() - self.began,
            batches=self._batches,
            findings=advise(self._baseline.profile, RULES),
            notes=["measured by workers: the program was not profiled beyond its baseline"],
            after=None,
            arena=self._arena,
        )

    def close(self) -> None:
        """End every process."""
        try:
            if hasattr(self, "_race"):
                self._race.close()
        finally:
            self._stack.close()

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)
            self.progress.warn(text)
