"""A worker: takes trials of a study that others take part in, measures them, and reports what it found.

The order of one trial: lease, measurement, spool (from here on the result is safe), our own tables, Optuna,
spool entry marked. A crash between any two repeats only what comes after.
"""

import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from advisor.bench import Bench
from advisor.calls import Calls
from advisor.contract import Value, describe_machine
from advisor.errors import EnvironmentProblem, NoValidTrial, UsageError
from advisor.groups import best_of, group_trials
from advisor.joining import refuse_other_program, refuse_other_space
from advisor.lease_keeper import LeaseKeeper, LeaseLost
from advisor.lease_times import LeaseTimes
from advisor.leases import Delivery, Lease, TrialLeases
from advisor.profiles.machine import Machine
from advisor.proposing import Proposer, refusal
from advisor.result import ResultData, Trial
from advisor.settings import Progress, Settings
from advisor.signals import StopRequests
from advisor.spool import Result, Spool
from advisor.storage_url import StorageUrl
from advisor.study import contract_of
from advisor.tuners.failures import USER_CAUSES, TrialFailed
from advisor.tuners.record import TrialRecord
from advisor.tuners.search import FAILURES_IN_A_ROW, StoppedBy
from advisor.tuners.session import Interrupted
from advisor.tuners.space import Space
from advisor.worker_link import WorkerLink

T = TypeVar("T")


@dataclass(frozen=True)
class Report:
    """What one worker did: its group, its trials, and the best of the whole group."""

    study: str
    fingerprint: str
    machine: str
    trials: int
    lost: int
    refused: int
    best: Trial | None
    stopped_by: StoppedBy


@dataclass
class Worker:
    """One worker of one study.

    Attributes:
        url: Where the study is.
        study: Its name.
        settings: The target, which is local, and the limits.
        bench: Where trials are measured.
        spool_folder: Where results wait for the database.
        create: Begin the study where there is none.
    """

    url: StorageUrl
    study: str
    settings: Settings
    bench: Bench
    progress: Progress
    stop: StopRequests
    spool_folder: Path
    create: bool = False
    times: LeaseTimes = field(default_factory=LeaseTimes.from_environment)
    trials: int = 0
    lost: int = 0
    refused: int = 0
    _failed_in_a_row: int = 0
    _finishing: bool = False
    _measuring: LeaseKeeper | None = None
    _began: float = field(default_factory=time.monotonic)
    _name: str = field(default_factory=lambda: f"{os.getpid()}-{uuid.uuid4().hex[:12]}")
    _fingerprint: str = ""
    _space: Space = field(init=False)
    _proposer: Proposer = field(init=False)

    def __post_init__(self) -> None:
        self._spool = Spool(self.spool_folder, str(self.url))
        self._calls: Calls[WorkerLink] = Calls(
            self._connect, self.times, waiting=self.waiting, warn=self.progress.warn
        )

    def run(self) -> Report:
        """Measure trials until the budget, their number, or the space is used up.

        Raises:
            UsageError: The study is about something else.
            TargetError: The target fails although nothing was changed.
            EnvironmentProblem: The database was away for too long; results wait in the spool.
            NoValidTrial: Every configuration failed.
        """
        import alembic.command  # noqa: F401  # like the next, it must not count as time of the database
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        stopped_by: StoppedBy = "interrupted"
        try:
            self._call(self._check_program)
            machine, self._space = self.bench.open()
            self._fingerprint = machine.fingerprint
            self._proposer = Proposer(self._space, self.settings.seed)
            self._join(machine)
            keeper = LeaseKeeper(self._connect, self._group, self.times)
            with keeper:
                try:
                    stopped_by = self._work(keeper)
                except Interrupted:
                    self.progress.say("interrupted; what was measured is kept")
            return self._finish(machine, stopped_by)
        finally:
            self.bench.close()
            self._calls.close()

    def waiting(self, what: str, seconds: float) -> None:
        """Look whether somebody asks us to stop.

        Raises:
            Interrupted: Somebody does.
            LeaseLost: The trial that is measured is not ours any more.
        """
        if self.stop.received is not None and not self._finishing:
            raise Interrupted
        if self._measuring is not None and self._measuring.lost:
            raise LeaseLost
        self.progress.waiting(what, seconds)

    def _check_program(self, link: WorkerLink) -> None:
        """Before the baseline takes its time: is this the program of the study?"""
        stored = link.store.load_study(self.study) if self.create else link.store.require_study(self.study)
        if stored is not None:
            refuse_other_program(self.study, stored.contract, self.settings)

    def _join(self, machine: Machine) -> None:
        now = contract_of(self.settings, machine, self._space.choices)
        stored = self._call(lambda link: self._stored(link, now))
        refuse_other_space(self.study, stored, now)
        if self.url.dialect == "sqlite" and stored.get("machine_fingerprint") != machine.fingerprint:
            raise UsageError(
                f"SQLite serves one machine, and study '{self.study}' was begun on another",
                hint="`--storage postgresql://USER@HOST/DB`",
            )
        baseline = self.bench.result([], "interrupted").baseline.model_dump(mode="json", by_alias=True)
        words = describe_machine(machine)
        self._call(lambda link: link.store.save_machine(machine))
        self._call(lambda link: self._group(link).register(words, baseline))
        self.progress.say(f"joined study '{self.study}' as {words}")

    def _stored(self, link: WorkerLink, now: Mapping[str, Any]) -> Mapping[str, Any]:
        """The contract of the study, which is begun where there is none; of many that begin it one does."""
        found = link.store.load_study(self.study)
        if found is None and self.create:
            try:
                link.store.create_study(self.study, now)
            except (UsageError, EnvironmentProblem):
                if link.store.load_study(self.study) is None:
                    raise
            found = link.store.load_study(self.study)
        return link.store.require_study(self.study).contract if found is None else found.contract

    def _work(self, keeper: LeaseKeeper) -> StoppedBy:
        while True:
            self.waiting("the next trial", 0.0)
            self._settle()
            if time.monotonic() - self._began > self.settings.budget_s:
                return "budget"
            if self.settings.trials is not None and self.trials >= self.settings.trials:
                return "trials"
            if self._failed_in_a_row >= FAILURES_IN_A_ROW:
                return "failures"
            lease = self._next()
            if lease is None:
                return "converged"
            keeper.hold(lease)
            try:
                self._run(lease, keeper)
            finally:
                keeper.hold(None)

    def _settle(self) -> None:
        """Deliver what waits here, end what others lost, and tell Optuna."""
        self._deliver()
        self._call(lambda link: self._group(link).reap())
        self._call(lambda link: link.settle(self._group(link)))

    def _next(self) -> Lease | None:
        """A trial that waits, or a new one; ``None`` when there is no more to try."""
        waiting = self._call(lambda link: self._group(link).take_queued(self._name))
        while waiting is None:
            taken = self._call(lambda link: self._group(link).keys())
            measured = self._call(lambda link: self._group(link).measured())
            config = self._proposer.propose(taken, measured, len(taken))
            if config is None:
                return None
            waiting = self._begin(config)
        return waiting

    def _begin(self, config: Mapping[str, Value]) -> Lease | None:
        key = self._space.key(config)
        return self._call(lambda link: self._group(link).begin(self._name, config, key))

    def _run(self, lease: Lease, keeper: LeaseKeeper) -> None:
        reason = refusal(self._space, lease.config)
        if reason is not None:
            self.refused += 1
            self.progress.warn(f"trial {lease.number} was refused: {reason}")
            self._keep(lease, _refused(lease, reason), None)
            return
        number = self._call(lambda link: link.announce(self._group(link), lease, self._space.choices))
        if not self._call(lambda link: self._group(link).note_asked(lease, number)):
            self.lost += 1
            return
        self._tell(lease)
        record = TrialRecord(lease.number, dict(lease.config), "search")
        deadline = self._began + self.settings.budget_s
        self._measuring = keeper
        try:
            trial = self.bench.measure(record, deadline)
            self._failed_in_a_row = 0
        except TrialFailed as failed:
            failure = failed.failure
            record.state, record.cause, record.message = "failed", failure.cause, failure.message
            self._failed_in_a_row = self._failed_in_a_row + 1 if failure.cause in USER_CAUSES else 0
            trial = _failed(record)
        except LeaseLost:
            self.lost += 1
            self.progress.warn(f"trial {lease.number} is another worker's now; it was ended here")
            return
        except Interrupted:
            record.state, record.cause, record.message = "failed", "killed", "the worker was interrupted"
            self._spool_result(lease, _failed(record), None)
            raise
        finally:
            self._measuring = None
        complete = trial.state == "complete" and trial.against_baseline is not None
        ratio = trial.against_baseline.estimate if complete and trial.against_baseline else None
        self.trials += 1
        self._keep(lease, trial, ratio)

    def _keep(self, lease: Lease, trial: Trial, value: float | None) -> None:
        """Keep a result; when this returns it is acknowledged, and delivered if the database answers."""
        self._spool_result(lease, trial, value)
        self._deliver()

    def _spool_result(self, lease: Lease, trial: Trial, value: float | None) -> None:
        self._spool.keep(
            Result(
                self.study, self._fingerprint, lease.number, lease.fence, trial.state, value,
                trial.model_dump(mode="json", by_alias=True),
            )
        )  # fmt: skip

    def _deliver(self) -> None:
        self._spool.deliver(self._send)

    def _send(self, result: Result) -> None:
        def record(link: WorkerLink) -> Delivery:
            leases = link.leases(result.study, result.fingerprint)
            return leases.record(result.number, result.fence, result.trial, result.state, result.value)

        if self._call(record) == "lost":
            self.lost += 1
            self.progress.warn(f"trial {result.number} is another worker's now; its late result is dropped")

    def _finish(self, machine: Machine, stopped_by: StoppedBy) -> Report:
        self._finishing = True
        self._settle()
        trials = self._call(lambda link: group_trials(link.store.database, self.study, self._fingerprint))
        document = self.bench.result(trials, stopped_by)
        self._call(lambda link: self._save(link, document))
        tried = [trial for trial in trials if trial.state != "pruned"]
        if tried and all(trial.state == "failed" for trial in tried) and stopped_by != "interrupted":
            raise NoValidTrial.of_causes([str(trial.cause) for trial in tried], self.study)
        return Report(
            self.study, self._fingerprint, describe_machine(machine), self.trials, self.lost, self.refused,
            best_of(trials), stopped_by,
        )  # fmt: skip

    def _save(self, link: WorkerLink, document: ResultData) -> None:
        """Keep a result for `advisor report`, unless a tuner made one, which says more."""
        stored = link.store.result(self.study)
        if stored is None or stored.command[:1] == ["worker"]:
            link.store.save_result(self.study, document)
            if not self._group(link).running():
                link.store.mark_status(self.study, "complete")

    def _tell(self, lease: Lease) -> None:
        present = self._space.present
        different = [f"{name}={value}" for name, value in lease.config.items() if value != present[name]]
        left = self._began + self.settings.budget_s - time.monotonic()
        self.progress.trial(lease.number, ", ".join(different) or "the baseline", "", max(0.0, left))

    def _group(self, link: WorkerLink) -> TrialLeases:
        return link.leases(self.study, self._fingerprint)

    def _connect(self) -> WorkerLink:
        return WorkerLink.open(self.url, self.times, self.progress.warn, create=self.create)

    def _call(self, action: Callable[[WorkerLink], T]) -> T:
        try:
            return self._calls(action)
        except EnvironmentProblem as problem:
            waiting = len(self._spool.waiting())
            if not waiting:
                raise
            raise EnvironmentProblem(
                problem.message,
                where=problem.where,
                cause=problem.cause,
                hint=f"{waiting} results are safe in {self._spool.path}; the next `advisor worker` here "
                "delivers them",
                code=problem.code,
            ) from problem


def _failed(record: TrialRecord) -> Trial:
    return Trial(
        number=record.number, config=record.config, stage=record.stage, state="failed", cause=record.cause,
        message=record.message, log=record.log,
    )  # fmt: skip


def _refused(lease: Lease, reason: str) -> Trial:
    """What was not run; of its contents nothing is repeated but that it is foreign."""
    return Trial(number=lease.number, config={}, stage="search", state="pruned", message=f"refused: {reason}")
