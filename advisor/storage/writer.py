"""One writer a study: only one process runs its trials; a dead one is no obstacle."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from advisor.base.errors import EnvironmentProblem
from advisor.storage.database import Database
from advisor.storage.storage_error import told
from advisor.storage.tables import studies

SAME_START_S = 2.0  # psutil derives the start from the boot time, which moves with the clock


@dataclass(frozen=True)
class Writer:
    """A process that no later one can be taken for: number, start (UNIX time, s), boot id."""

    pid: int
    started: float
    boot: str

    @classmethod
    def this(cls) -> "Writer":
        """The process that asks."""
        me = psutil.Process()
        return cls(me.pid, me.create_time(), _boot_id())

    @classmethod
    def from_json(cls, data: dict[str, Any] | None) -> "Writer | None":
        """What was stored of one."""
        return None if data is None else cls(**data)

    def is_alive(self) -> bool:
        """It runs, on this machine and since it was stored."""
        if self.boot != _boot_id():
            return False
        try:
            return abs(psutil.Process(self.pid).create_time() - self.started) < SAME_START_S
        except psutil.Error:
            return False


class Claims:
    """The studies that this process writes.

    In a SQLite file the study names its writer, and is free when that is dead. On a server an advisory lock
    keeps others out. It ends with its connection, which a failover cuts unseen; so the study names its writer
    there too, and each write looks whether it still does.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: dict[str, sa.Connection | None] = {}
        self._me = asdict(Writer.this())

    def claim(self, name: str) -> None:
        """Become the only one that runs trials of a study, which may be created later.

        Raises:
            EnvironmentProblem: Another living process is at it.
        """
        if name in self._held:
            return
        lock = self._server_lock(name) if self._database.url.dialect == "postgresql" else None
        self._held[name] = lock
        with self._database.writing() as connection:
            stored = connection.execute(sa.select(studies.c.writer).where(studies.c.name == name)).scalar()
            other = Writer.from_json(stored)
            if lock is None and other is not None and other.is_alive():
                del self._held[name]
                raise _in_use(name, f"process {other.pid}")
            connection.execute(studies.update().where(studies.c.name == name).values(writer=self._me))

    def holder(self, name: str) -> dict[str, Any] | None:
        """What a new study of that name stores: us, when it was claimed before it was created."""
        return self._me if name in self._held else None

    def check(self, connection: sa.Connection, name: str) -> None:
        """Keep a claimed study ours until the transaction ends.

        Args:
            connection: In a transaction that writes to the study.
            name: Of the study; nothing is looked at where it was not claimed, or is not there yet.

        Raises:
            EnvironmentProblem: Another process has claimed it since.
        """
        if name not in self._held:
            return
        row = connection.execute(
            sa.select(studies.c.writer).where(studies.c.name == name).with_for_update(read=True)
        ).first()
        if row is not None and row.writer != self._me:
            raise _in_use(name, "another process")

    def release(self, name: str) -> None:
        """Let others run trials of the study."""
        if name not in self._held:
            return
        lock = self._held.pop(name)
        mine = studies.c.name == name
        with self._database.writing() as connection:
            if connection.execute(sa.select(studies.c.writer).where(mine)).scalar() == self._me:
                connection.execute(studies.update().where(mine).values(writer=None))
        if lock is not None:
            with suppress(DBAPIError), lock:  # a connection that is lost has given the lock back already
                lock.execute(sa.select(sa.func.pg_advisory_unlock(_lock_number(name))))

    def release_all(self) -> None:
        """Let others run what we claimed."""
        for name in list(self._held):
            self.release(name)

    def _server_lock(self, name: str) -> sa.Connection:
        with told(self._database.url):
            connection = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if not connection.execute(sa.select(sa.func.pg_try_advisory_lock(_lock_number(name)))).scalar():
                connection.close()
                raise _in_use(name, "another process")
            return connection


def _in_use(name: str, holder: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"study '{name}' is being tuned by {holder}",
        hint="wait for it, or another `--study NAME`",
        code="in_use",
    )


def _lock_number(name: str) -> int:
    """A number (64 bits, signed) for the lock of a study."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big", signed=True)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return str(round(psutil.boot_time()))
