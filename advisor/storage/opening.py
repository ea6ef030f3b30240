"""A database is looked at before it is touched, and made by one process at a time.

What is no database of ours is refused and left byte for byte as it was.
"""

import functools
import importlib.metadata
import json
import os
import shlex
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from advisor.base.errors import AdvisorError, EnvironmentProblem, UsageError, clean
from advisor.base.fault_points import hit
from advisor.base.installation import CLONE
from advisor.storage.database import (
    Database,
    Patience,
    connect,
    engine_address,
    engine_options,
    file_lock,
    file_uri,
    in_use,
    lock_path,
    writing_to,
)
from advisor.storage.migrations import newest, upgrade
from advisor.storage.storage_error import UNTOUCHED, problem, sqlite_error, told
from advisor.storage.storage_url import StorageUrl
from advisor.storage.tables import version

SMALLEST_BYTES = 512  # SQLite takes a smaller file for an empty one, and writes over it
QUICK_CHECK_BYTES = 64 * 2**20  # checking reads every page: about 0.2 s for this many

OPTUNA_TABLES = frozenset((
    "alembic_version", "studies", "study_directions", "study_system_attributes", "study_user_attributes",
    "trial_heartbeats", "trial_intermediate_values", "trial_params", "trial_system_attributes",
    "trial_user_attributes", "trial_values", "trials", "version_info",
))  # fmt: skip


def prepare_file(url: StorageUrl, create: bool) -> None:
    """Make our own folder where it is missing, and refuse what others could write.

    Raises:
        UsageError: There is no such file, and none is to be created.
        EnvironmentProblem: Others may write the file or its folder, or it cannot be read.
    """
    path = url.path
    if path is None:
        return
    if not create and not path.exists():
        raise UsageError(
            f"no such file: {url.shown}", hint="`advisor tune TARGET` makes it", code="no_storage"
        )
    if create and url.is_default:
        with suppress(FileExistsError), writing_to(url):
            path.parent.mkdir(mode=0o700)
    folder_mode = path.parent.stat().st_mode
    forbidden = stat.S_IWOTH | (stat.S_IWGRP if url.is_default else 0)
    if folder_mode & forbidden and not folder_mode & stat.S_ISVTX:
        folder = clean(os.path.relpath(path.parent)) if url.is_default else clean(str(path.parent))
        raise EnvironmentProblem(
            f"others can write to {folder}", hint=f"`chmod go-w {shlex.quote(folder)}`", code="storage"
        )
    if path.exists():
        if not path.is_file():
            raise problem(sqlite_error(sqlite3.SQLITE_NOTADB), url)
        if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise EnvironmentProblem(
                f"others can change {url.shown}",
                hint=f"`chmod go-w {shlex.quote(url.shown)}`",
                code="storage",
            )
        if not os.access(path, os.R_OK):
            raise EnvironmentProblem(f"cannot read {url.shown}: permission denied", code="storage")
        _refuse_logs_of_others(url, path)


def _refuse_logs_of_others(url: StorageUrl, path: Path) -> None:
    """What another user left beside our file keeps us from it; SQLite only says that it cannot open it."""
    for ending in ("-wal", "-shm", "-journal"):
        log = path.with_name(path.name + ending)
        if log.exists() and not os.access(log, os.R_OK | os.W_OK) and os.access(path, os.W_OK):
            raise EnvironmentProblem(
                f"{url.shown}{ending} belongs to another user",
                cause=f"it is of user {log.stat().st_uid}, who had the database open last",
                hint=f"have them end what uses it, then `chown $USER {shlex.quote(url.shown)}*`",
                code="storage",
            )


def create_file(url: StorageUrl) -> bool:
    """Create an empty file that only its owner can read; False when there is one."""
    assert url.path is not None
    with writing_to(url):
        try:
            os.close(os.open(url.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
    return True


def remove_file(url: StorageUrl) -> None:
    """Remove a database that was only half made."""
    assert url.path is not None
    for ending in ("", "-wal", "-shm", "-journal"):
        url.path.with_name(url.path.name + ending).unlink(missing_ok=True)


@contextmanager
def reading(url: StorageUrl) -> Iterator[sa.Engine]:
    """An engine that cannot change the SQLite file, not even by looking at it.

    Raises:
        EnvironmentProblem: Not a database, or a damaged one.
    """
    assert url.path is not None
    location = file_uri(url.path, "mode=ro" if in_use(url.path) else "mode=ro&immutable=1")
    patience = Patience(url.shown, warn=lambda text: None)
    engine = sa.create_engine("sqlite://", creator=lambda: connect(location, patience), poolclass=NullPool)
    with told(url):
        if url.path.stat().st_size <= QUICK_CHECK_BYTES:
            with engine.connect() as connection:
                verdict = connection.execute(sa.text("PRAGMA quick_check(1)")).scalar()
            if verdict != "ok":
                raise problem(sqlite_error(sqlite3.SQLITE_CORRUPT), url)
        yield engine


def tables_of(engine: sa.Engine) -> frozenset[str]:
    """Names of the tables that are there."""
    return frozenset(sa.inspect(engine).get_table_names())


def refuse_foreign_tables(url: StorageUrl, tables: frozenset[str]) -> None:
    """Refuse a database that belongs to another program; tables of Optuna may be there.

    On a server other tables are usual, and only those in the way of Optuna's are refused.

    Raises:
        UsageError: Naming one of the tables.
    """
    of_optuna = OPTUNA_TABLES if "version_info" in tables else frozenset[str]()
    foreign = tables - of_optuna if url.dialect == "sqlite" else tables & OPTUNA_TABLES - of_optuna
    if foreign:
        first, more = clean(min(foreign)), ", ..." if len(foreign) > 1 else ""
        raise UsageError(
            f"{url.shown} holds tables of another program ({first}{more}); {UNTOUCHED}",
            hint="name another file" if url.path else "name another database",
        )


def open_database(url: StorageUrl, *, create: bool, warn: Callable[[str], None]) -> Database:
    """Open a database, and create file and tables where they are missing and ``create`` says so.

    Tables of an older advisor are brought up to date, whoever opens them.

    Raises:
        UsageError: Nothing is there, or it belongs to another program.
        EnvironmentProblem: It cannot be used: not a database, damaged, newer, others can write to it.
    """
    prepare_file(url, create)
    held = _schema_of_file(url, warn)
    if held is None and not create and url.path is not None:
        raise _nothing_there(url)
    database = _database(url, warn)
    if held == newest():
        return database
    try:
        with told(url):
            if url.dialect == "postgresql":
                held = _schema(url, database.engine)
                if held == newest():
                    return database
            if held is None and not create and not url.in_memory:
                raise _nothing_there(url)
            if held is not None and url.path is not None:
                _refuse_unwritable(url, url.path)
            with database.schema_lock():
                hit("schema.before")
                _make_tables(database)
                hit("schema.after")
    except BaseException:
        database.close()
        raise
    return database


def _database(url: StorageUrl, warn: Callable[[str], None]) -> Database:
    options = engine_options(url, Patience(url.shown, warn))
    to_json = functools.partial(json.dumps, allow_nan=False)
    engine = sa.create_engine(engine_address(url), json_serializer=to_json, **options)
    return Database(url, engine, options, warn)


def _schema_of_file(url: StorageUrl, warn: Callable[[str], None]) -> int | None:
    """The schema of our tables in a SQLite file, ``None`` for an empty file or none; others are refused."""
    path = url.path
    if path is None or not path.exists():
        return None
    try:
        return _look(url, path)
    except AdvisorError:
        if not lock_path(path).exists():
            raise
    # Another process may be creating the tables, and until then the file looks like anything.
    with file_lock(url, path, warn):
        return _look(url, path)


def _look(url: StorageUrl, path: Path) -> int | None:
    size = path.stat().st_size
    if size == 0:
        return None
    if size < SMALLEST_BYTES:
        raise problem(sqlite_error(sqlite3.SQLITE_NOTADB), url)
    with reading(url) as engine:
        return _schema(url, engine)


def _schema(url: StorageUrl, engine: sa.Engine) -> int | None:
    """The schema of our tables, ``None`` where there are none; refuses newer and another program's."""
    tables = tables_of(engine)
    if version.name not in tables:
        refuse_foreign_tables(url, tables)
        return None
    with engine.connect() as connection:
        row = connection.execute(sa.select(version).order_by(version.c.schema.desc())).first()
    if row is None:  # it is written together with the tables
        raise problem(sqlite_error(sqlite3.SQLITE_CORRUPT), url)
    if row.schema > newest():
        raise EnvironmentProblem(
            f"{url.shown} was made by advisor {clean(row.advisor)}, this is {_this_version()}; {UNTOUCHED}",
            hint=f"`pip install --upgrade {CLONE}` after `git pull` there",
            code="newer_schema",
        )
    return int(row.schema)


def _refuse_unwritable(url: StorageUrl, path: Path) -> None:
    """Tables of an older advisor must be brought up to date, also for who only reads."""
    if not os.access(path, os.W_OK):
        raise EnvironmentProblem(
            f"{url.shown} was made by an older advisor and must be brought up to date",
            cause="it cannot be written here",
            hint="copy it to a folder of yours, and give `--storage sqlite:///COPY`",
            code="older_schema",
        )


def _make_tables(database: Database) -> None:
    """Create our tables or bring them up to date, all or none; the lock is held."""
    url = database.url
    made = url.path is not None and create_file(url)
    try:
        held = None if made else _look(url, url.path) if url.path else _schema(url, database.engine)
        if held == newest():
            return
        if held is None and url.path is not None:
            with database.engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        with database.rebuilding() as connection:
            upgrade(connection, held)
            connection.execute(version.insert().values(schema=newest(), advisor=_this_version()))
    except BaseException:
        if made:
            database.close()
            remove_file(url)
        raise


def _nothing_there(url: StorageUrl) -> UsageError:
    return UsageError(
        f"{url.shown} holds no studies of advisor", hint="`advisor tune TARGET` makes one", code="no_storage"
    )


def _this_version() -> str:
    return importlib.metadata.version("torch-advisor")
