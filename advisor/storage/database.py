"""Connections to one database, ours and Optuna's alike: who writes waits for who writes already.

Creating tables happens under a lock, for many processes may start at once.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote
from zlib import crc32

import sqlalchemy as sa
from filelock import FileLock, Timeout
from sqlalchemy.pool import StaticPool

from advisor.base.errors import EnvironmentProblem, clean
from advisor.storage.storage_error import holder_of, problem, sqlite_error, told
from advisor.storage.storage_url import StorageUrl

T = TypeVar("T")

NOTICE_S = 5.0  # no write of ours takes as long, so the message means another program
LIMIT_S = 60.0
LIMIT_VARIABLE = "ADVISOR_STORAGE_WAIT"  # seconds in place of LIMIT_S; for tests
# What libpq is told unless the URL says otherwise: seconds to connect, milliseconds of a statement and until
# what was sent must be acknowledged, seconds until a silent connection is asked for a sign of life.
SERVER_DEADLINES: dict[str, Any] = {
    "connect_timeout": 10,
    "options": "-c statement_timeout=30000",
    "tcp_user_timeout": 30_000,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
SCHEMA_LOCK = 0x61647669  # "advi": the advisory lock of PostgreSQL under which tables are created


def limit_s() -> float:
    """How long to wait for another writer: a minute, or what a test says."""
    try:
        return max(0.1, float(os.environ.get(LIMIT_VARIABLE, LIMIT_S)))
    except ValueError:
        return LIMIT_S


def notice_s() -> float:
    """After how long a writer that waits says so."""
    return min(NOTICE_S, limit_s() / 2)


@dataclass(frozen=True)
class Patience:
    """How long a writer waits for another one; ``warn`` is told once, after ``notice_s`` seconds."""

    shown: str
    warn: Callable[[str], None]
    notice_s: float = field(default_factory=notice_s)
    limit_s: float = field(default_factory=limit_s)

    def retry(self, action: Callable[[], T], may_retry: Callable[[], bool]) -> T:
        """Repeat an action while the file is busy and nothing of it was done yet.

        Raises:
            sqlite3.OperationalError: Still busy after ``limit_s``, or another error.
        """
        start, told_once = time.monotonic(), False
        while True:
            try:
                return action()
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or not may_retry() or time.monotonic() - start >= self.limit_s:
                    raise
                if not told_once:
                    self.warn(f"waiting for {self.shown}: another process is writing to it")
                    told_once = True


class PatientCursor(sqlite3.Cursor):
    """Waits at the first statement of a transaction, which takes the lock for writing."""

    def execute(self, sql: str, parameters: Any = (), /) -> "PatientCursor":
        """As in ``sqlite3``."""
        return self._patiently(lambda: super(PatientCursor, self).execute(sql, parameters))

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> "PatientCursor":
        """As in ``sqlite3``."""
        rows = list(parameters)
        return self._patiently(lambda: super(PatientCursor, self).executemany(sql, rows))

    def _patiently(self, action: Callable[[], T]) -> T:
        connection = self.connection
        assert isinstance(connection, PatientConnection)
        return connection.patience.retry(action, lambda: not connection.in_transaction)


class PatientConnection(sqlite3.Connection):
    """A connection whose statements wait for other writers as ``patience`` says."""

    patience: Patience

    def cursor(self, factory: Callable[[sqlite3.Connection], Any] | None = None) -> Any:
        """As in ``sqlite3``, patient."""
        return super().cursor(factory or PatientCursor)

    def commit(self) -> None:
        """As in ``sqlite3``; without write-ahead log readers can make it wait."""
        self.patience.retry(super().commit, lambda: True)


class Database:
    """An open database. Every transaction that returns has been committed.

    Attributes:
        url: Where it is.
        engine: SQLAlchemy's engine for our tables.
        options: What ``create_engine`` needs besides the URL, for Optuna's engine; holds the password.
    """

    def __init__(
        self,
        url: StorageUrl,
        engine: sa.Engine,
        options: dict[str, Any],
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.url = url
        self.engine = engine
        self.options = options
        self._warn = warn
        self._identity: tuple[int, int] | None = None

    def close(self) -> None:
        """Give back all connections."""
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection to read from."""
        with told(self.url), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that holds the lock for writing from its beginning.

        Raises:
            EnvironmentProblem: The file was removed or replaced since it was opened, or cannot be written.
        """
        self._identity = self._identity or _identity(self.url.path)
        if _identity(self.url.path) != self._identity:
            raise EnvironmentProblem(
                f"{self.url.shown} was removed or replaced while in use",
                hint="move it back, or start another study",
                code="storage",
            )
        with told(self.url), self.engine.begin() as connection:
            if self.url.dialect == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    @contextmanager
    def rebuilding(self) -> Iterator[sa.Connection]:
        """A transaction that may replace whole tables: what refers to them is checked at its end.

        Raises:
            EnvironmentProblem: As for ``writing``, or a row refers to one that is not there.
        """
        if self.url.dialect != "sqlite":
            with self.writing() as connection:
                yield connection
            return
        with told(self.url), self.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA foreign_keys=OFF")  # SQLite ignores it inside a transaction
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
                broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
                if broken is not None:
                    raise problem(sqlite_error(sqlite3.SQLITE_CORRUPT), self.url)
                connection.commit()
            finally:
                connection.rollback()
                connection.exec_driver_sql("PRAGMA foreign_keys=ON")

    @contextmanager
    def schema_lock(self) -> Iterator[None]:
        """One process at a time creates tables: of many that do at once, most would fail.

        Raises:
            EnvironmentProblem: The lock was not free within a minute.
        """
        if self.url.in_memory or (self.url.path is not None and _is_unwritable(self.url.path)):
            yield  # nobody can create anything
        elif self.url.path is not None:
            with file_lock(self.url, self.url.path, self._warn):
                yield
        else:
            with self.reading() as plain:
                connection = plain.execution_options(isolation_level="AUTOCOMMIT")
                connection.execute(sa.select(sa.func.pg_advisory_lock(SCHEMA_LOCK)))
                try:
                    yield
                finally:
                    connection.execute(sa.select(sa.func.pg_advisory_unlock(SCHEMA_LOCK)))


def replace(connection: sa.Connection, table: sa.Table, keys: dict[str, Any], values: dict[str, Any]) -> None:
    """Insert a row, or change the one with these keys, in a transaction that writes."""
    same = sa.and_(*(table.c[name] == value for name, value in keys.items()))
    if connection.dialect.name == "postgresql":  # two that insert the same key at once would collide
        number = crc32(table.name.encode()) & 0x7FFFFFFF
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(SCHEMA_LOCK, number)))
    if connection.execute(table.update().where(same).values(values)).rowcount == 0:
        connection.execute(table.insert().values({**keys, **values}))


def engine_options(url: StorageUrl, patience: Patience) -> dict[str, Any]:
    """Arguments of ``create_engine`` besides the URL: the way to the database, and the password."""
    if url.in_memory:
        shared = connect(":memory:", patience)
        return {"creator": lambda: shared, "poolclass": StaticPool}
    if url.path is not None:
        path = url.path
        return {"creator": lambda: connect(file_uri(path, _access(path)), patience)}
    arguments: dict[str, Any] = {**SERVER_DEADLINES, **dict(url.query)}
    if url.password is not None:
        arguments["password"] = url.password
    return {"connect_args": arguments, "pool_pre_ping": True, "pool_size": 1}


def in_use(path: Path) -> bool:
    """A log stands beside the file: somebody has it open, or was killed."""
    return any(path.with_name(path.name + ending).exists() for ending in ("-wal", "-journal"))


def _access(path: Path) -> str:
    """How SQLite is to open a file: without write access it could not even make what reading a WAL takes."""
    return "mode=ro&immutable=1" if _is_unwritable(path) and not in_use(path) else "mode=rw"


def _is_unwritable(path: Path) -> bool:
    return path.exists() and not os.access(path, os.W_OK)


def engine_address(url: StorageUrl) -> str:
    """The URL for ``create_engine``, without password; the file of SQLite is named by the options."""
    if url.dialect == "sqlite":
        return "sqlite://" if url.in_memory else "sqlite:///studies.db"
    address = sa.URL.create("postgresql+psycopg", url.user, None, url.host, url.port, url.database)
    return address.render_as_string()


def _identity(path: Path | None) -> tuple[int, int] | None:
    """What tells a file from another of the same name; ``None`` when there is none."""
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def lock_path(path: Path) -> Path:
    """The lock beside a SQLite file; held while tables are created."""
    return path.with_name(path.name + ".lock")


@contextmanager
def file_lock(url: StorageUrl, path: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock beside a SQLite file; not to be nested.

    Raises:
        EnvironmentProblem: It was not free within a minute, or its file cannot be written.
    """
    lock = FileLock(lock_path(path), mode=0o600)
    with writing_to(url):
        try:
            lock.acquire(timeout=notice_s())
        except Timeout:
            holder = holder_of(lock_path(path)) or "another process"
            warn(f"waiting for {url.shown}: {holder} is setting it up")
            try:
                lock.acquire(timeout=limit_s() - notice_s())
            except Timeout:
                raise EnvironmentProblem(
                    f"{url.shown} is being set up by {holder}", hint="end that process", code="storage"
                ) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def writing_to(url: StorageUrl) -> Iterator[None]:
    """Say plainly that a file or folder cannot be written."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise EnvironmentProblem(
            f"cannot write {url.shown}",
            cause=clean(error.strerror or str(error)),
            hint="choose another place: `--storage sqlite:///PATH`",
            code="storage",
        ) from error


def file_uri(path: Path, query: str) -> str:
    """The name of a file as SQLite takes it together with parameters."""
    return f"file:{quote(os.fsencode(path))}?{query}"


def connect(location: str, patience: Patience) -> PatientConnection:
    """Connect to a SQLite file by its URI, or to ``:memory:``."""
    # IMMEDIATE: a transaction that first reads and then writes would fail at once when another wrote
    # in between, without waiting.
    connection = sqlite3.connect(
        location,
        uri=location != ":memory:",
        timeout=patience.notice_s,
        isolation_level="IMMEDIATE",
        check_same_thread=False,
        factory=PatientConnection,
    )
    connection.patience = patience
    connection.execute("PRAGMA foreign_keys=ON")
    return connection
