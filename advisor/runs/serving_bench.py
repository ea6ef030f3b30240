"""A bench on another node: opens the target as the tuner does, runs it unchanged, and then measures."""

import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from advisor.base.errors import AdvisorError
from advisor.base.settings import Clock, Settings
from advisor.stages.bench import Launching, MeasuredBench, open_bench, run_unchanged
from advisor.stages.benches import opened_by
from advisor.stages.launching import Caller, open_launcher
from advisor.stages.study import study_folder
from advisor.storage.contract import default_study_name
from advisor.tuners.benches.messages import (
    Answer,
    Asked,
    Learnt,
    NotMeasured,
    NotOpened,
    Open,
    Paired,
    Ping,
    Pong,
    Raced,
    Removed,
    RunInstances,
    RunLearning,
    RunRace,
    RunRemoval,
    Said,
    Teach,
)
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.comparing.retrying import once_more
from advisor.tuners.search.ablate import contribution
from advisor.tuners.search.compile_limit import compiling_within
from advisor.tuners.search.race import Race
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision.failures import Failure, TrialFailed


@dataclass
class ServedBench:
    """Answers what a tuner says.

    Attributes:
        caller: Is told what happens; its warnings go to the tuner.
        launching: Opens the launcher.
        clock: Seconds, monotonic.
    """

    caller: Caller
    launching: Launching = open_launcher
    clock: Clock = time.monotonic
    _stack: ExitStack = field(default_factory=ExitStack)
    _bench: MeasuredBench | None = None
    _race: Race | None = None

    def answer(self, said: Said) -> Said | None:
        """What is to be answered, if anything.

        Raises:
            Interrupted: The caller asked to stop.
        """
        match said:
            case Open():
                return self._open(said)
            case Teach():
                self._learn(said)
            case Ping():
                return Pong()
            case RunRace() | RunInstances() | RunRemoval() | RunLearning():
                return self._measured(said)
        return None

    def close(self) -> None:
        """End the program and all that belongs to it."""
        if self._race is not None:
            self._race.close()
        if self._bench is not None:
            self._bench.arena.held.drop()
            self._bench.arena.ahead.drop()
            self._bench.baseline.end()
        self._stack.close()

    def _open(self, said: Open) -> Said:
        settings = replace(said.settings, out=None, storage=None, resume=False)
        try:
            opening = open_bench(
                settings, self._folder(settings), self.caller,
                began=self.clock(), launching=self.launching, clock=self.clock,
            )  # fmt: skip
            self._bench = run_unchanged(self._stack.enter_context(opening))
        except AdvisorError as error:
            return NotOpened("; ".join(filter(None, (error.message, error.where, error.cause))))
        except TrialFailed as failed:
            return NotOpened(failed.failure.message)
        return opened_by(self._bench)

    def _folder(self, settings: Settings) -> Path:
        """For logs, which go with the bench."""
        base = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="advisor-bench-"))
        return study_folder(default_study_name(settings.target.name), Path(base))

    def _learn(self, said: Teach) -> None:
        bench = self._there
        bench.arena.present, bench.arena.switches = said.present, list(said.switches)
        base = Configuration(said.present)
        self._race = Race(bench.arena, self.clock, said.limit_bytes, base, said.least)
        session, bench.baseline.session = bench.baseline.session, None
        if session is not None:
            session.settle(said.present)
            self._race.adopt(base, session)

    def _measured(self, said: Asked) -> Answer:
        began = self.clock()
        record = TrialRecord(0, Configuration({}), "search")
        try:
            match said:
                case RunRace():
                    record.number, record.config = said.number, Configuration(said.candidate)
                    return self._raced(said, record, began)
                case RunInstances():
                    return self._paired(said, began)
                case RunRemoval():
                    return self._removed(said, began)
                case RunLearning():
                    return self._learnt(said, began)
        except TrialFailed as failed:
            seconds, race = self.clock() - began, self._racing
            lost = dict(race.lost) if isinstance(said, RunRace) else {}
            log = self._there.arena.log
            return NotMeasured(said.key, seconds, failed.failure, lost, tuple(record.marks), log)

    def _raced(self, said: RunRace, record: TrialRecord, began: float) -> Raced:
        race = self._racing
        incumbent, limits = Configuration(said.incumbent), self._there.launcher.limits
        with compiling_within(limits, said.left_s, record.config):
            estimate = race.run(incumbent, record.config, record, began + said.left_s, said.bar, said.look)
        return Raced(
            said.key,
            self.clock() - began,
            estimate,
            race.input_wait,
            race.pairs,
            record.process,
            tuple(record.slots),
            record.outcome,
            tuple(record.applied),
            record.refused,
            tuple(record.marks),
            record.startup_s,
            self._there.arena.log,
            tuple(race.log_ratios),
        )

    def _paired(self, said: RunInstances, began: float) -> Paired:
        """Processes of races end before: a pair has the machine to itself."""
        self._racing.close()
        arena, duels = self._there.arena, list[Duel]()
        try:
            for instance in said.instances:
                duels.append(once_more(partial(instance.measured, arena)))
        finally:
            arena.ahead.drop()
        return Paired(said.key, self.clock() - began, tuple(duels))

    def _removed(self, said: RunRemoval, began: float) -> Removed:
        self._racing.close()
        estimate, cut_off = contribution(
            self._there.arena, Configuration(said.reduced), Configuration(said.winner),
            detectable=said.detectable, level=said.level, number=said.number, deadline=began + said.left_s,
            fewest=said.fewest,
        )  # fmt: skip
        return Removed(said.key, self.clock() - began, estimate, cut_off)

    def _learnt(self, said: RunLearning, began: float) -> Learnt:
        """Two at once where both fit; each by itself where that fails."""
        self._racing.close()
        arena = self._there.arena
        runs = [(run.config, run.seed_offset, run.nudge) for run in said.runs]
        learnings: list[gate.Learning] = []
        if len(runs) > 1 and arena.two_fit and arena.at_once:
            with suppress(TrialFailed):
                learnings = gate.learn_together(arena, runs, said.steps)
        if not learnings:
            learnings = [
                once_more(partial(gate.learn, arena, config, said.steps, seed_offset, nudge))
                for config, seed_offset, nudge in runs
            ]
        return Learnt(said.key, self.clock() - began, tuple(learnings))

    @property
    def _there(self) -> MeasuredBench:
        if self._bench is None:
            raise TrialFailed(Failure("internal", "nothing is open on this bench"))
        return self._bench

    @property
    def _racing(self) -> Race:
        if self._race is None:
            raise TrialFailed(Failure("internal", "this bench was not taught what to compare"))
        return self._race
