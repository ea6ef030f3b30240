"""One workload, started and measured as ``advisor tune`` does it: baseline, profile, arena, comparisons."""

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from grids import WORKLOADS, Cell

from advisor.base.settings import Settings, TargetRequest
from advisor.profiles.facts.profile import Profile
from advisor.report.progress import PlainProgress
from advisor.stages.baseline import run_baseline
from advisor.stages.diagnosing.diagnosis import Diagnosis
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.measure import Estimate, between
from advisor.tuners.comparing.ways import LIVE
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.search.race import DUEL_QUADS
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.messages import Slot
from advisor.tuners.trial.spec import Target

BASELINE_S = 120.0  # the budget whose share a baseline's comparison with itself takes
DIAGNOSIS_S = 45.0
LIVE_QUADS = 10  # of a cell that shares one process with the default
PAIRS = 2  # of processes, for other cells; roles swapped in the second
CONFIRMING = 4  # pairs of fresh processes for what counts
PRECISE = 0.05  # half width of an interval, as a log ratio, that a comparison of two good ones goes on for
MOST_PAIRS = 12
LEVEL = 0.95  # of intervals

Config = Mapping[str, Value]


@dataclass
class Bench:
    """A running comparison of one workload.

    Attributes:
        profile: What the baseline showed.
        start_s: To start a process and to warm it up, once that was done.
    """

    workload: str
    arena: Arena
    profile: Profile
    start_s: float = 0.0
    _shared: Running | None = None

    def diagnosed(self) -> Profile:
        """The full profile, from a process of its own; ends the shared one before."""
        self.close()
        diagnosis = Diagnosis(
            lambda: self.arena.launcher.start(0, {}, {}),
            self.arena,
            time.monotonic() + DIAGNOSIS_S,
            PlainProgress(sys.stderr, quiet=True),
        )
        return diagnosis.run()

    def cell(self, default: Config, config: Config, forbidden: str | None) -> Cell:
        """Measure one configuration against the default; a failure is an answer, too."""
        how = self.arena.how(default, config)
        cell = Cell(dict(config), how, forbidden=forbidden)
        try:
            if how == LIVE:
                return self._live(default, cell)
            self.close()
            return self._apart(default, cell, PAIRS)
        except TrialFailed as failed:
            self.close()
            failure = failed.failure
            return Cell(
                cell.config, how, "failed", cause=failure.cause, reason=failure.message, forbidden=forbidden
            )

    def confirmed(self, default: Config, config: Config) -> Cell:
        """The same on fresh processes alone."""
        self.close()
        cell = Cell(dict(config), self.arena.how(default, config, fresh=True))
        try:
            return self._apart(default, cell, CONFIRMING)
        except TrialFailed as failed:
            return Cell(
                cell.config, cell.how, "failed", cause=failed.failure.cause, reason=failed.failure.message
            )

    def ratio(self, first: Config, second: Config, most: int = CONFIRMING) -> Estimate:
        """Log ratio of the second's speed over the first's, from pairs of fresh processes.

        Args:
            first: One configuration.
            second: The other.
            most: Pairs at most; beyond ``CONFIRMING`` only for as long as the interval is wide.

        Raises:
            TrialFailed: One of them fails.
        """
        self.close()
        how = self.arena.how(first, second, fresh=True)
        pairs: list[list[float]] = []
        while len(pairs) < most:
            swapped = len(pairs) % 2 == 1
            pairs.append(
                self.arena.duel(first, second, how=how, quads=DUEL_QUADS, swapped=swapped).log_ratios
            )
            if len(pairs) >= CONFIRMING:
                estimate = between(pairs, LEVEL)
                if estimate.high - estimate.low <= 2 * PRECISE:
                    break
        return between(pairs, LEVEL)

    def close(self) -> None:
        """End the shared process, so that nothing runs beside what is measured."""
        if self._shared is not None:
            self._shared.kill()
            self._shared = None

    def _live(self, default: Config, cell: Cell) -> Cell:
        session = self._session(default)
        began = time.monotonic()
        ratios, (_, slots), (_, message) = self.arena.quads(
            (session, session), (default, cell.config), LIVE_QUADS
        )
        seconds = time.monotonic() - began
        return _filled(cell, [ratios], [seconds], slots, message.refused)

    def _session(self, default: Config) -> Running:
        if self._shared is None or not self._shared.alive:
            began = time.monotonic()
            self._shared = self.arena.start(default, 0)
            self._shared.first_step()
            self.arena.warm_up(self._shared)
            self.start_s = time.monotonic() - began
        return self._shared

    def _apart(self, default: Config, cell: Cell, pairs: int) -> Cell:
        instances, seconds, slots = [], [], list[Slot]()
        for index in range(pairs):
            duel = self.arena.duel(
                default, cell.config, how=cell.how, quads=DUEL_QUADS, swapped=index % 2 == 1
            )
            outcome = duel.second_outcome
            if outcome is not None and outcome.compile.failures:
                raise TrialFailed(Failure("compile_fell_back", outcome.compile.failures[0]))
            instances.append(duel.log_ratios)
            seconds.append(duel.seconds)
            slots += duel.second
            refused = duel.second_message.refused
            if refused:
                break
        return _filled(cell, instances, seconds, slots, refused)


@contextmanager
def bench(workload: str) -> Iterator[Bench]:
    """Run the baseline of a workload and set an arena up as ``advisor tune`` does.

    Raises:
        TargetError: It fails unchanged.
    """
    script = WORKLOADS / f"{workload}.py"
    with tempfile.TemporaryDirectory(prefix="oracle-") as name:
        folder = Path(name)
        (folder / "work").mkdir()
        (folder / "compiled").mkdir(mode=0o700)
        target = Target("script", str(script), (), str(folder / "work"))
        with Launcher(target, folder / "trials", compile_cache=folder / "compiled") as launcher:
            arena = Arena(launcher, KNOBS, {})
            settings = Settings(target=TargetRequest(kind="script", name=str(script)), budget_s=BASELINE_S)
            baseline = run_baseline(launcher, arena, settings)
            if baseline.session is not None:
                baseline.session.kill()
            profile = baseline.profile
            baseline.teach(arena)
            if baseline.contended:
                print(f"{workload}: other processes use this machine; the figures are worth little")
            running = Bench(workload, arena, profile)
            try:
                yield running
            finally:
                running.close()


def _filled(
    cell: Cell,
    instances: list[list[float]],
    seconds: list[float],
    slots: Sequence[Slot],
    refused: Mapping[str, str],
) -> Cell:
    if refused:
        reason = "; ".join(dict.fromkeys(refused.values()))
        return Cell(cell.config, cell.how, "refused", reason=reason, forbidden=cell.forbidden)
    steps = [step for slot in slots for step in slot.step_s]
    return Cell(
        cell.config,
        cell.how,
        instances=instances,
        seconds=seconds,
        step_s=sum(steps) / len(steps),
        forbidden=cell.forbidden,
    )
