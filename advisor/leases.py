"""Who runs which trial of a study that several workers share; all times are the database server's.

A lease is a row. Its fence number moves whenever the trial changes hands, so that a result that comes late
(of a worker that was stopped, or cut off) is known and dropped. What was recorded here counts; Optuna is
told of it afterwards (``advisor.announcing``), by whoever comes next if need be.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from advisor.contract import Value
from advisor.database import Database
from advisor.lease_tables import groups, leases
from advisor.lease_times import LeaseTimes
from advisor.result import Trial

Delivery = Literal["recorded", "already", "lost"]
EndState = Literal["complete", "pruned", "failed"]

ATTEMPTS = 2  # a trial whose lease was lost is queued again once
LOST = "the worker that ran this trial was not heard of until its lease expired"


@dataclass(frozen=True)
class Lease:
    """A trial that one worker may run: its number, what to measure, and the fence that admits its result.

    ``config`` is as it was stored, and to be checked by who runs it.
    """

    number: int
    fence: int
    config: Any
    key: str
    attempt: int


@dataclass(frozen=True)
class Ended:
    """A recorded trial of which Optuna may not know yet; ``asked`` is its number there."""

    number: int
    asked: int | None
    state: EndState
    value: float | None


@dataclass(frozen=True)
class TrialLeases:
    """The leases of one study on machines of one fingerprint. Each call is one transaction."""

    database: Database
    study: str
    fingerprint: str
    times: LeaseTimes

    def register(self, machine: str, baseline: Mapping[str, Any]) -> None:
        """Make the group, when this is its first worker.

        Args:
            machine: In words.
            baseline: The worker's own baseline, as JSON values.
        """
        with self.database.writing() as connection:
            if self.database.url.dialect == "postgresql":
                # Two inserts of one key would collide; no row can be locked that is not there.
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_number(self.study))))
            if connection.execute(sa.select(groups.c.study).where(self._group())).first() is None:
                row = {"study": self.study, "fingerprint": self.fingerprint, "machine": machine}
                connection.execute(groups.insert().values(**row, baseline=dict(baseline)))

    def begin(self, worker: str, config: Mapping[str, Value], key: str) -> Lease | None:
        """Take a new trial; ``None`` when the group has one of this configuration already."""
        with self.database.writing() as connection:
            self._lock(connection)
            taken = sa.select(leases.c.number).where(self._mine(), leases.c.key == key)
            if connection.execute(taken).first() is not None:
                return None
            row = self._insert(connection, dict(config), key, attempt=1)
            return self._take(connection, row, worker)

    def take_queued(self, worker: str) -> Lease | None:
        """Take the trial that has waited longest, if one waits."""
        with self.database.writing() as connection:
            self._lock(connection)
            waiting = sa.select(leases.c.number).where(self._mine(), leases.c.state == "queued")
            number = connection.execute(waiting.order_by(leases.c.number).limit(1)).scalar()
            return None if number is None else self._take(connection, number, worker)

    def renew(self, lease: Lease) -> bool:
        """Keep a trial for another while; ``False`` when it is another worker's now."""
        with self.database.writing() as connection:
            changed = connection.execute(self._held(lease.number, lease.fence).values(expires=self._expiry()))
            return changed.rowcount == 1

    def note_asked(self, lease: Lease, asked: int) -> bool:
        """Keep Optuna's number of the trial; ``False`` when it is another worker's now."""
        with self.database.writing() as connection:
            changed = connection.execute(self._held(lease.number, lease.fence).values(asked=asked))
            return changed.rowcount == 1

    def record(
        self, number: int, fence: int, trial: Mapping[str, Any], state: EndState, value: float | None
    ) -> Delivery:
        """Keep the result of a trial and give its lease back; a second time changes nothing.

        Args:
            number: Of the lease.
            fence: Of the lease, when the trial began.
            trial: As JSON values.
            state: How it ended.
            value: What Optuna is told: ratio to the group's baseline, finite.

        Returns:
            ``lost`` when the trial was given to another worker: the result is dropped.
        """
        if value is not None and not math.isfinite(value):
            raise ValueError(f"the value of trial {number} is {value}")
        values = {"state": state, "data": dict(trial), "value": value, "worker": None, "expires": None}
        with self.database.writing() as connection:
            if connection.execute(self._held(number, fence).values(values)).rowcount == 1:
                return "recorded"
            there = sa.select(leases.c.fence, leases.c.state).where(self._mine(), leases.c.number == number)
            row = connection.execute(there).first()
        return "already" if row is not None and row.fence == fence and row.state != "queued" else "lost"

    def reap(self) -> list[int]:
        """End trials whose lease expired: failed with cause ``lost_lease``, and queued again once.

        A server that was away gives everybody the whole time again, as nobody could renew.

        Returns:
            Numbers of the trials that were lost.
        """
        now = self._now()
        expired = leases.c.expires < now
        if self.database.url.dialect == "postgresql":
            up_since = sa.cast(sa.extract("epoch", sa.func.pg_postmaster_start_time()), sa.Double)
            expired &= up_since + self.times.expiry_s < now
        with self.database.writing() as connection:
            self._lock(connection)
            rows = connection.execute(
                sa.select(leases).where(self._mine(), leases.c.state == "running", expired)
            ).all()
            for row in rows:
                lost = Trial.model_construct(
                    number=row.number, config=row.config, state="failed", stage="search",
                    cause="lost_lease", message=LOST,
                )  # fmt: skip
                ended = {"state": "failed", "fence": row.fence + 1, "worker": None, "expires": None}
                connection.execute(
                    self._row(row.number).values(**ended, data=lost.model_dump(mode="json", by_alias=True))
                )
                if row.attempt < ATTEMPTS:
                    self._insert(connection, row.config, row.key, attempt=row.attempt + 1)
        return [row.number for row in rows]

    def finished(self) -> list[Ended]:
        """All trials of the group that ended, by number."""
        return self._ended(sa.true())

    def untold(self) -> list[Ended]:
        """Trials that ended and of which Optuna was not told, by number."""
        return self._ended(~leases.c.told)

    def mark_told(self, number: int) -> None:
        """Optuna knows how a trial ended."""
        with self.database.writing() as connection:
            connection.execute(self._row(number).values(told=True))

    def running(self) -> dict[tuple[int, int], int | None]:
        """Number and fence of each trial that a worker has now, with Optuna's number where it is known."""
        query = sa.select(leases.c.number, leases.c.fence, leases.c.asked)
        with self.database.reading() as connection:
            rows = connection.execute(query.where(self._mine(), leases.c.state == "running")).all()
        return {(row.number, row.fence): row.asked for row in rows}

    def keys(self) -> set[str]:
        """Every configuration that was measured, runs or waits."""
        with self.database.reading() as connection:
            return set(connection.execute(sa.select(leases.c.key).where(self._mine())).scalars())

    def measured(self) -> list[tuple[Any, float]]:
        """Configurations as they were stored, with their values, by number."""
        query = sa.select(leases.c.config, leases.c.value).where(
            self._mine(), leases.c.state == "complete", leases.c.value.is_not(None)
        )
        with self.database.reading() as connection:
            return [
                (row.config, row.value) for row in connection.execute(query.order_by(leases.c.number)).all()
            ]

    def _ended(self, condition: "sa.ColumnElement[bool]") -> list[Ended]:
        query = (
            sa.select(leases.c.number, leases.c.asked, leases.c.state, leases.c.value)
            .where(self._mine(), leases.c.state.not_in(("queued", "running")), condition)
            .order_by(leases.c.number)
        )
        with self.database.reading() as connection:
            return [Ended(**row._mapping) for row in connection.execute(query).all()]

    def _insert(self, connection: sa.Connection, config: Any, key: str, *, attempt: int) -> int:
        """A trial that waits; its number. The group is locked."""
        last = connection.execute(sa.select(sa.func.max(leases.c.number)).where(self._mine())).scalar()
        number = 1 + (last or 0)
        row = {"study": self.study, "fingerprint": self.fingerprint, "number": number, "attempt": attempt}
        row |= {"fence": 0, "state": "queued", "key": key, "config": config, "told": False}
        connection.execute(leases.insert().values(row))
        return number

    def _take(self, connection: sa.Connection, number: int, worker: str) -> Lease:
        taken = {"state": "running", "worker": worker, "fence": leases.c.fence + 1}
        connection.execute(self._row(number).values(**taken, expires=self._expiry()))
        row = connection.execute(sa.select(leases).where(self._mine(), leases.c.number == number)).one()
        return Lease(row.number, row.fence, row.config, row.key, row.attempt)

    def _lock(self, connection: sa.Connection) -> None:
        """Whoever changes what is there waits here; in SQLite every transaction does."""
        connection.execute(sa.select(groups.c.study).where(self._group()).with_for_update())

    def _held(self, number: int, fence: int) -> sa.Update:
        return self._row(number).where(leases.c.fence == fence, leases.c.state == "running")

    def _row(self, number: int) -> sa.Update:
        return leases.update().where(self._mine(), leases.c.number == number)

    def _mine(self) -> "sa.ColumnElement[bool]":
        return sa.and_(leases.c.study == self.study, leases.c.fingerprint == self.fingerprint)

    def _group(self) -> "sa.ColumnElement[bool]":
        return sa.and_(groups.c.study == self.study, groups.c.fingerprint == self.fingerprint)

    def _expiry(self) -> "sa.ColumnElement[float]":
        return self._now() + self.times.expiry_s

    def _now(self) -> "sa.ColumnElement[float]":
        """The server's clock, in seconds since 1970."""
        if self.database.url.dialect == "postgresql":
            return sa.cast(sa.extract("epoch", sa.func.now()), sa.Double)
        return (sa.func.julianday("now", type_=sa.Double) - 2440587.5) * 86400.0


def _number(name: str) -> int:
    """A number for an advisory lock on a study's groups; another one than that of its tuner."""
    from hashlib import sha256

    return int.from_bytes(sha256(f"groups of {name}".encode()).digest()[:8], "big", signed=True)
