"""What went wrong in the database, told in a sentence with the next step and without the password."""

import re
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from advisor.base.errors import AdvisorError, EnvironmentProblem, clean
from advisor.storage.storage_url import StorageUrl

UNTOUCHED = "left untouched"

_READ_ONLY = "choose another place: `--storage sqlite:///PATH`"
_SQLITE: dict[int, tuple[str, str | None]] = {
    sqlite3.SQLITE_NOTADB: (f"{{name}} is not a SQLite database; {UNTOUCHED}", "name another file"),
    sqlite3.SQLITE_CORRUPT: (
        f"{{name}} is damaged; {UNTOUCHED}",
        "`sqlite3 {name} .recover`; finished reports stay readable",
    ),
    sqlite3.SQLITE_BUSY: ("{name} is locked by another process", "end that process, or name another file"),
    sqlite3.SQLITE_FULL: ("no space left for {name}", "free some space; `--resume` continues the study"),
    sqlite3.SQLITE_READONLY: ("cannot write {name}", _READ_ONLY),
    sqlite3.SQLITE_CANTOPEN: ("cannot open {name}", _READ_ONLY),
    sqlite3.SQLITE_PERM: ("cannot open {name}: permission denied", _READ_ONLY),
    sqlite3.SQLITE_IOERR: ("cannot read or write {name}", "check the disk and its free space"),
}

# Texts of libpq and of the server; unknown or translated ones are told as they are.
_POSTGRESQL: tuple[tuple[str, str, str], ...] = (
    (
        r"password authentication failed|no password supplied|SASL",
        "PostgreSQL refused the password",
        "put it in ~/.pgpass, PGPASSFILE or ADVISOR_STORAGE",
    ),
    (r"database .* does not exist", "the database does not exist", "`createdb NAME`"),
    (r"role .* does not exist", "the user does not exist in PostgreSQL", "`createuser NAME`"),
    (
        r"too many (connections|clients)|connection slots|CONNECTION LIMIT",
        "PostgreSQL takes no more connections",
        "close some, or raise max_connections",
    ),
    # Before what is said of TLS in general: this one says how the connection was protected.
    (
        r"(?i)pg_hba\.conf",
        "PostgreSQL does not admit this connection",
        "add a line to its pg_hba.conf; a line `hostssl` there admits sslmode=require or stronger alone",
    ),
    (
        r"does not support SSL",
        "the server does not speak TLS",
        "set `ssl = on` in its postgresql.conf, or leave sslmode out in a network that you trust",
    ),
    (
        r"certificate verify failed",
        "the server's certificate cannot be verified",
        "name its authority: `sslrootcert=PATH`; if that is right, look at the dates of the certificate",
    ),
    (
        r"does not match host name",
        "the server's certificate is for another host name",
        "use a name in the certificate, or make one for this name",
    ),
    (
        r"root certificate file",
        "the certificate of the authority cannot be read",
        "name its file: `sslrootcert=PATH`",
    ),
    (
        r"(?i)terminating connection|connection has been closed|closed the connection|EOF detected",
        "the connection to PostgreSQL was lost",
        "look at the server and its log",
    ),
    (
        r"(?i)\bssl\b|certificate|\btls\b",
        "TLS to PostgreSQL failed",
        "check sslmode and sslrootcert",
    ),
    (
        r"statement timeout",
        "PostgreSQL did not answer in time",
        "look at its load, and at what holds its locks",
    ),
    (
        r"(?i)translate host name|name or service",
        "the server's host is not known",
        "check the host name",
    ),
    (
        r"(?i)refused|no such file|could not connect|timeout|timed out|starting up|shutting down",
        "no PostgreSQL server answers",
        "start it, or check host and port",
    ),
    (r"(?i)permission denied", "PostgreSQL does not allow it", "`GRANT CREATE ON SCHEMA public TO USER`"),
)


@contextmanager
def told(url: StorageUrl) -> Iterator[None]:
    """Turn errors of the database inside the block into ``EnvironmentProblem``."""
    from sqlalchemy.exc import DBAPIError, TimeoutError

    try:
        yield
    except DBAPIError as error:
        raise problem(error.orig or error, url) from error
    except TimeoutError as error:
        raise problem(error, url) from error


def sqlite_error(code: int) -> sqlite3.DatabaseError:
    """The error that SQLite would raise with this code, for what we find out before it does."""
    error = sqlite3.DatabaseError()
    error.sqlite_errorcode = code
    return error


def problem(error: BaseException, url: StorageUrl) -> AdvisorError:
    """The sentence for an error of a database driver."""
    if isinstance(error, sqlite3.Error):
        return _of_sqlite(error, url)
    return _of_postgresql(str(error), url)


def holder_of(path: Path) -> str:
    """The process that holds a lock on the file or its write-ahead log, if the kernel tells; else ""."""
    import psutil

    inodes = set()
    for ending in ("", "-shm"):
        with suppress(OSError):
            inodes.add(path.with_name(path.name + ending).stat().st_ino)
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return ""
    for fields in (line.split() for line in lines):
        if len(fields) >= 6 and fields[3] == "WRITE" and int(fields[5].rpartition(":")[2]) in inodes:
            pid = int(fields[4])
            with suppress(psutil.Error):
                return f"process {pid} ({clean(psutil.Process(pid).name())})"
    return ""


def _of_sqlite(error: sqlite3.Error, url: StorageUrl) -> EnvironmentProblem:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    message, hint = _SQLITE.get(code, ("{name} cannot be used", None))
    if code == sqlite3.SQLITE_BUSY and url.path is not None and (holder := holder_of(url.path)):
        message = message.replace("another process", holder)
    known = code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
    return EnvironmentProblem(
        message.format(name=url.shown),
        cause=None if known else clean(str(error)),
        hint=hint.format(name=shlex.quote(url.shown)) if hint else None,
        code="storage",
    )


def _of_postgresql(text: str, url: StorageUrl) -> EnvironmentProblem:
    for pattern, message, hint in _POSTGRESQL:
        if re.search(pattern, text):
            cause = _without(url.password, _last_line(text, pattern))
            return EnvironmentProblem(message, where=url.shown, cause=cause, hint=hint, code="storage")
    cause = _without(url.password, _last_line(text, r"FATAL|ERROR|error|failed"))
    return EnvironmentProblem("PostgreSQL reports an error", where=url.shown, cause=cause, code="storage")


def _last_line(text: str, pattern: str) -> str:
    """The last line with the pattern: libpq lists every address it tried and adds advice below."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = [line for line in lines if re.search(pattern, line)]
    return clean((found or lines or [""])[-1 if found else 0])


def _without(password: str | None, text: str) -> str:
    return text.replace(password, "***") if password else text
