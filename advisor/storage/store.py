"""Studies, trials and results, kept so that what was acknowledged survives the end of any process.

A call that returns has committed. Optuna's tables stand beside ours in the same database; they are only
touched, and Optuna only imported, by ``optuna_study`` and ``reap``.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import sqlalchemy as sa

from advisor.base.errors import NoValidTrial, UsageError, clean
from advisor.base.fault_points import hit
from advisor.profiles.facts.machine import Machine
from advisor.result.document import ResultData, Trial
from advisor.storage import stored_results
from advisor.storage.contract import Value, check_study_name, no_such_study
from advisor.storage.database import Database, replace
from advisor.storage.opening import open_database
from advisor.storage.optuna_tables import Direction, end_running, open_study, told_by_optuna
from advisor.storage.storage_url import StorageUrl
from advisor.storage.tables import comparisons, machines, profiles, results, studies, trials
from advisor.storage.writer import Claims, Writer

if TYPE_CHECKING:
    import optuna

Status = Literal["running", "complete", "interrupted", "failed"]
Stage = Literal["baseline", "screen", "search", "confirm", "ablate"]
KILLED = "the tuner ended during this trial"


@dataclass(frozen=True)
class StoredStudy:
    """A study as it was begun. ``created`` is UTC in ISO 8601."""

    name: str
    created: str
    target: str
    contract: dict[str, Any]
    status: Status


@dataclass(frozen=True)
class StudySummary:
    """A line of ``advisor studies``; ``verdict`` is ``None`` while there is no result."""

    name: str
    created: str
    target: str
    trials: int
    verdict: str | None
    status: Status


@dataclass(frozen=True)
class StoredComparison:
    """What was measured of a trial; ``kind`` and ``data`` as they were saved."""

    trial: int
    kind: str
    data: dict[str, Any]


class Store:
    """The database of all studies. Use it in a ``with`` block, or call ``close``.

    Errors of the database are raised as ``EnvironmentProblem``. Not to be used in a forked child.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._claims = Claims(database)

    @classmethod
    def open(cls, url: StorageUrl, *, create: bool, warn: Callable[[str], None]) -> "Store":
        """Open a database, and create file and tables where they are missing and ``create`` says so.

        Args:
            url: Where.
            create: Whether anything may be created.
            warn: Is told in a sentence when another process makes us wait.

        Raises:
            UsageError: Nothing is there, or it belongs to another program.
            EnvironmentProblem: It cannot be used: not a database, damaged, newer, others can write to it.
        """
        return cls(open_database(url, create=create, warn=warn))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release every study that was claimed, and give back all connections."""
        hit("release.before")
        try:
            self._claims.release_all()
            hit("release.after")
        finally:
            self._database.close()

    # Studies

    def create_study(self, name: str, contract: Mapping[str, Any]) -> None:
        """Begin a study, with status ``running``.

        Raises:
            UsageError: The name is taken, or cannot be a name.
        """
        row = {
            "name": check_study_name(name),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "target": clean(str(contract.get("target", ""))),
            "contract": dict(contract),
            "status": "running",
            "writer": self._claims.holder(name),
        }
        with self._database.writing() as connection:
            if connection.execute(sa.select(studies.c.name).where(studies.c.name == name)).first():
                raise UsageError(
                    f"there is a study '{name}' already", hint="`--resume`, or another `--study NAME`"
                )
            connection.execute(studies.insert().values(row))

    def add_to_contract(self, name: str, part: str, content: Any) -> None:
        """Add what is known only after a study was begun; what is there already stays."""
        with self._writing(name) as connection:
            query = sa.select(studies.c.contract).where(studies.c.name == name)
            contract = dict(connection.execute(query).scalar_one())
            contract.setdefault(part, content)
            connection.execute(studies.update().where(studies.c.name == name).values(contract=contract))

    def load_study(self, name: str) -> StoredStudy | None:
        """The study of that name, if there is one."""
        columns = [studies.c[field] for field in ("name", "created", "target", "contract", "status")]
        with self._database.reading() as connection:
            row = connection.execute(sa.select(*columns).where(studies.c.name == name)).first()
        return None if row is None else StoredStudy(**row._mapping)

    def require_study(self, name: str) -> StoredStudy:
        """The study of that name.

        Raises:
            UsageError: There is none; the hint holds the nearest names.
        """
        found = self.load_study(check_study_name(name))
        if found is None:
            raise no_such_study(name, self.names())
        return found

    def names(self) -> list[str]:
        """Names of all studies, in alphabetical order."""
        with self._database.reading() as connection:
            return list(connection.execute(sa.select(studies.c.name).order_by(studies.c.name)).scalars())

    def unused_name(self, name: str) -> str:
        """``name``, or with the first free number behind it: ``train``, ``train-2``, ``train-3``, ..."""
        taken = set(self.names())
        candidates = (f"{name[:190]}-{count}" for count in range(2, len(taken) + 3))
        return name if name not in taken else next(one for one in candidates if one not in taken)

    def studies(self) -> list[StudySummary]:
        """All studies, newest first. One whose tuner was killed is ``interrupted``."""
        count = (
            sa.select(sa.func.count())
            .where(trials.c.study == studies.c.name, trials.c.finished)
            .correlate(studies)
            .scalar_subquery()
        )
        query = (
            sa.select(studies, count.label("trials"), results.c.verdict)
            .outerjoin_from(studies, results, results.c.study == studies.c.name)
            .order_by(studies.c.created.desc(), studies.c.name)
        )
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return [
            StudySummary(row.name, row.created, row.target, row.trials, row.verdict, _status(row))
            for row in rows
        ]

    def mark_status(self, name: str, status: Status) -> None:
        """Say how far a study is."""
        with self._writing(name) as connection:
            connection.execute(studies.update().where(studies.c.name == name).values(status=status))

    # One writer

    def claim(self, name: str) -> None:
        """Become the only one that runs trials of a study, until ``close`` or our death.

        Raises:
            EnvironmentProblem: Another living process is at it.
        """
        self._claims.claim(name)

    @contextmanager
    def _writing(self, study: str) -> Iterator[sa.Connection]:
        """A transaction that writes to a study; ours still, where it was claimed."""
        with self._database.writing() as connection:
            self._claims.check(connection, study)
            yield connection

    # Trials

    def next_number(self, study: str) -> int:
        """A number that no trial of the study ever had, interrupted ones included."""
        with self._database.reading() as connection:
            last = connection.execute(
                sa.select(sa.func.max(trials.c.number)).where(trials.c.study == study)
            ).scalar()
        return 0 if last is None else int(last) + 1

    def begin(
        self, study: str, number: int, config: Mapping[str, Value], key: str, stage: Stage = "screen"
    ) -> None:
        """Note that a trial runs now. If nobody records it, ``reap`` makes it a failed one (``killed``)."""
        lost = Trial(
            number=number, config=dict(config), stage=stage, state="failed", cause="killed", message=KILLED
        )
        self._put(study, lost, key, finished=False)

    def record(
        self, study: str, trial: Trial, key: str, *, asked: int | None = None, value: float | None = None
    ) -> None:
        """Keep a trial; when this returns it is acknowledged. A second time replaces the first.

        Args:
            study: Name of a study that exists.
            trial: What was measured.
            key: ``advisor.storage.contract.config_key`` of its configuration.
            asked: Optuna's number of the trial, when Optuna proposed it.
            value: What Optuna is told about it, finite.

        Raises:
            ValueError: ``value`` is not finite.
        """
        if value is not None and not math.isfinite(value):
            raise ValueError(f"the value of trial {trial.number} is {value}")
        self._put(study, trial, key, finished=True, asked=asked, value=value)

    def trials(self, study: str) -> list[Trial]:
        """All trials that ended, by number."""
        return [trial for _, trial, _ in self.finished(study)]

    # Facts and results

    def save_machine(self, machine: Machine) -> None:
        """Keep what a machine is, under its fingerprint."""
        with self._database.writing() as connection:
            replace(connection, machines, {"fingerprint": machine.fingerprint}, {"data": machine.as_json()})

    def save_profile(self, study: str, data: Mapping[str, Any], kind: str = "baseline") -> None:
        """Keep the profile of a run, as JSON values."""
        with self._writing(study) as connection:
            replace(connection, profiles, {"study": study, "kind": kind}, {"data": dict(data)})

    def profile(self, study: str, kind: str = "baseline") -> dict[str, Any] | None:
        """A profile that was saved, if there is one."""
        query = sa.select(profiles.c.data).where(profiles.c.study == study, profiles.c.kind == kind)
        with self._database.reading() as connection:
            found: dict[str, Any] | None = connection.execute(query).scalar()
        return found

    def save_comparison(self, study: str, trial: int, kind: str, data: Mapping[str, Any]) -> None:
        """Keep measurements of a trial, such as those of a comparison with the baseline, as JSON values."""
        row = {"study": study, "trial": trial, "kind": kind, "data": dict(data)}
        with self._writing(study) as connection:
            connection.execute(comparisons.insert().values(row))

    def comparisons(self, study: str) -> list[StoredComparison]:
        """All measurements of a study, in the order saved."""
        query = sa.select(comparisons).where(comparisons.c.study == study).order_by(comparisons.c.id)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return [StoredComparison(row.trial, row.kind, row.data) for row in rows]

    def save_result(self, study: str, result: ResultData, *, finished: bool = True) -> None:
        """Keep what the study found; of one that still runs all but its trials, which are kept already."""
        with self._writing(study) as connection:
            stored_results.save(connection, study, result, finished=finished)

    def result(self, study: str) -> ResultData | None:
        """What the study found, if it got that far."""
        return stored_results.load(self._database, study)

    def require_result(self, study: str) -> ResultData:
        """What the study found.

        Raises:
            UsageError: There is no such study.
            NoValidTrial: Nothing was found yet; the message says how its baseline ended.
        """
        self.require_study(study)
        found = self.result(study)
        if found is not None:
            return found
        baseline = next((trial for trial in self.trials(study) if trial.stage == "baseline"), None)
        reason = f" (baseline failed: {baseline.cause})" if baseline and baseline.state == "failed" else ""
        raise NoValidTrial(
            f"nothing measured yet{reason}", hint=f"`advisor tune TARGET --study {study} --resume`"
        )

    # Optuna

    def optuna_study(
        self, name: str, sampler: "optuna.samplers.BaseSampler | None", direction: Direction = "maximize"
    ) -> "optuna.Study":
        """Optuna's study of that name in the same database, created when there is none.

        Raises:
            UsageError: The stored one has another direction.
        """
        return open_study(self._database, name, sampler, direction)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Around calls of Optuna's study: what it hides as "invalid data" is told plainly."""
        with told_by_optuna(self._database.url):
            yield

    def reap(self, name: str) -> list[Trial]:
        """End what a killed tuner left running; ``claim`` the study first.

        Its unfinished trial becomes a failed one with cause ``killed``. Trials that Optuna believes to be
        running are told: their value where it was recorded, else a failure.

        Returns:
            The trials that were killed, by number.
        """
        mine = trials.c.study == name
        with self._writing(name) as connection:
            begun = sa.select(trials.c.data).where(mine, ~trials.c.finished).order_by(trials.c.number)
            lost = connection.execute(begun).scalars().all()
            connection.execute(trials.update().where(mine, ~trials.c.finished).values(finished=True))
        told_values = sa.select(trials.c.asked, trials.c.value).where(mine, trials.c.asked.is_not(None))
        with self._database.reading() as connection:
            values = {row.asked: row.value for row in connection.execute(told_values)}
            has_optuna = sa.inspect(connection).has_table("studies")
        if has_optuna:
            end_running(self._database, name, values)
        return [Trial.model_validate(data) for data in lost]

    def _put(
        self,
        study: str,
        trial: Trial,
        key: str,
        *,
        finished: bool,
        asked: int | None = None,
        value: float | None = None,
    ) -> None:
        data = trial.model_dump(mode="json", by_alias=True)
        values = {"key": key, "finished": finished, "asked": asked, "value": value, "data": data}
        with self._writing(study) as connection:
            replace(connection, trials, {"study": study, "number": trial.number}, values)

    def finished(self, study: str) -> list[tuple[str, Trial, float | None]]:
        """Key and contents of the trials that ended, and what Optuna was told of each, by number."""
        query = (
            sa.select(trials.c.key, trials.c.data, trials.c.value)
            .where(trials.c.study == study, trials.c.finished)
            .order_by(trials.c.number)
        )
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return [(row.key, Trial.model_validate(row.data), row.value) for row in rows]


def _status(row: "sa.Row[Any]") -> Status:
    """The stored status, unless the process that was to change it is dead."""
    status: Status = row.status
    writer = Writer.from_json(row.writer)
    gone = status == "running" and writer is not None and not writer.is_alive()
    return "interrupted" if gone else status
