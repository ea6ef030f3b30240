"""Where studies are stored, as the user writes it; checked before anything is opened or imported.

A URL is ``sqlite:///PATH``, ``sqlite://`` (in memory) or ``postgresql://USER@HOST/DB``. The password is
kept out of every text that is made here.
"""

import importlib.util
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote

from advisor.base.errors import EnvironmentProblem, UsageError, clean
from advisor.base.installation import install_extra
from advisor.base.redaction import POSTGRES_KEYS

DEFAULT_FOLDER = ".advisor"
DEFAULT_STORAGE = f"sqlite:///{DEFAULT_FOLDER}/studies.db"

MOUNTS = Path("/proc/self/mounts")
EXAMPLES = "`sqlite:///path.db` or `postgresql://USER@HOST/DB`"
POSTGRES = "`postgresql://USER@HOST/DB`"
VISIBLE_PASSWORD = (
    "the password in --storage is visible to other users of this machine; "
    "use PGPASSFILE, ~/.pgpass or ADVISOR_STORAGE"
)

# What libpq may be told about the way to the server. A key that is not here may load code or files.
# Types of /proc/mounts whose files several hosts may write; WAL needs memory shared by all writers.
NETWORK_FILE_SYSTEMS = frozenset((
    "afs", "beegfs", "ceph", "cifs", "coda", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs",
    "fuse.juicefs", "fuse.mount-s3", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs",
    "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs",
    "wekafs",
))  # fmt: skip

_FORM = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*)://(?P<rest>.*)", re.DOTALL | re.ASCII)
_REST = re.compile(
    r"(?:(?P<user>[^:/?]*)(?::(?P<password>[^@]*))?@)?"
    r"(?:\[(?P<host6>[^\]/?]*)\]|(?P<host>[^:/?]*))"
    r"(?::(?P<port>[^/?]*))?"
    r"(?:/(?P<database>[^?]*))?"
    r"(?:\?(?P<query>.*))?",
    re.DOTALL,
)


@dataclass(frozen=True)
class StorageUrl:
    """A storage URL that can be opened.

    Attributes:
        dialect: ``"sqlite"`` or ``"postgresql"``.
        path: The SQLite file, absolute; ``None`` in memory and for a server.
        shown: What messages call it: the path as the user wrote it, or the URL without password.
        user, password, host, port, database: Of a server; ``None`` where the URL leaves it open.
        query: Allowed parameters of a server, in the order written.
        warnings: What the user should read although the URL is accepted, a sentence each.
    """

    dialect: Literal["sqlite", "postgresql"]
    shown: str
    path: Path | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    host: str | None = None
    port: int | None = None
    database: str | None = None
    query: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def in_memory(self) -> bool:
        """Gone when the process ends."""
        return self.dialect == "sqlite" and self.path is None

    @property
    def is_default(self) -> bool:
        """The file in our own folder, which is made when it is missing."""
        return self.path is not None and self.path.parent.name == DEFAULT_FOLDER

    def __str__(self) -> str:
        """The URL without password."""
        if self.dialect == "postgresql":
            return self.shown
        return f"sqlite:///{self.shown}" if self.path else "sqlite://"


def parse_storage(text: str, *, from_environment: bool = False, mounts: Path = MOUNTS) -> StorageUrl:
    """Check a storage URL; nothing is created, opened or heavy to import.

    Args:
        text: ``--storage`` or ``ADVISOR_STORAGE``.
        from_environment: It comes from the environment, where others cannot read a password.
        mounts: The table of mounted file systems.

    Raises:
        UsageError: Not a storage URL, one that is not supported, or a file that cannot be there.
        EnvironmentProblem: The library for PostgreSQL is not installed.
    """
    if not text.strip():
        raise UsageError("storage is empty", hint=f"leave it out for the default file, {DEFAULT_STORAGE}")
    form = _FORM.fullmatch(text)
    if form is None or "\0" in text:
        raise UsageError(f"'{_redacted(text)}' is not a storage URL", hint=EXAMPLES)
    scheme = form["scheme"]
    if scheme in ("sqlite", "sqlite+pysqlite"):
        return _sqlite(form["rest"], mounts)
    if scheme in ("postgresql", "postgresql+psycopg"):
        return _postgresql(form["rest"], from_environment)
    raise UsageError(f"'{clean(scheme)}' is not supported", hint="sqlite, postgresql")


def file_system_of(path: Path, mounts: str) -> str:
    """The type of the file system that holds ``path`` (absolute, links resolved); "" when unknown.

    Args:
        path: A file or folder; it need not exist.
        mounts: The text of ``/proc/self/mounts``: device, mount point, type and more, a line each.
    """
    best, found = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[1])
        if path.is_relative_to(point) and len(point) >= best:
            best, found = len(point), fields[2]
    return found


def _sqlite(rest: str, mounts: Path) -> StorageUrl:
    location, _, query = rest.partition("?")
    for key, _value in parse_qsl(query, keep_blank_values=True):
        raise _not_allowed(key)
    if location in ("", "/", "/:memory:"):
        return StorageUrl("sqlite", shown="memory")
    if not location.startswith("/"):
        raise UsageError(
            f"'sqlite://{_redacted(location)}' names a host, and SQLite has none",
            hint="three slashes before a path: `sqlite:///path.db`",
        )
    written = location[1:]
    shown = clean(written)
    folder = os.path.dirname(written.rstrip("/")) if written.endswith("/") else os.path.dirname(written)
    if os.path.isdir(written):
        raise UsageError(
            f"{shown} is a directory", hint=f"name a file in it: `sqlite:///{_in_folder(shown)}`"
        )
    path = Path(os.path.abspath(written))
    makes_folder = path.parent.name == DEFAULT_FOLDER and path.parent.parent.is_dir()
    if written.endswith("/") or not (makes_folder or os.path.isdir(folder or ".")):
        missing = written.rstrip("/") if written.endswith("/") else folder
        raise UsageError(
            f"no such directory: {clean(missing)}", hint=f"`mkdir -p {shlex.quote(clean(missing))}`"
        )
    _refuse_network(path, shown, mounts)
    return StorageUrl("sqlite", shown=shown, path=path)


def _in_folder(shown: str) -> str:
    return f"{shown.rstrip('/')}/studies.db"


def _refuse_network(path: Path, shown: str, mounts: Path) -> None:
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    kind = file_system_of(Path(os.path.realpath(path)), table)
    if kind in NETWORK_FILE_SYSTEMS:
        raise UsageError(f"SQLite serves one machine, and {shown} lies on a network ({kind})", hint=POSTGRES)


def _postgresql(rest: str, from_environment: bool) -> StorageUrl:
    parts = _REST.fullmatch(rest)
    # An unescaped @ of a password puts the rest of it where the host, the port or the database stand.
    if parts is None or any("@" in (parts[part] or "") for part in ("host", "port", "database")):
        raise UsageError(
            "the postgresql:// URL cannot be read",
            hint="write @ : / ? in a user or password as %40 %3A %2F %3F",
        )
    query = parse_qsl(parts["query"] or "", keep_blank_values=True)
    seen: set[str] = set()
    for key, _value in query:
        if key not in POSTGRES_KEYS:
            raise _not_allowed(key)
        if key in seen:
            raise UsageError(f"parameter '{key}' is given twice")
        seen.add(key)
    if importlib.util.find_spec("psycopg") is None:
        raise EnvironmentProblem(
            "postgresql:// needs the extra",
            hint=f"`{install_extra('postgres')}`",
            code="missing_extra",
        )
    user = unquote(parts["user"]) if parts["user"] else None
    password = unquote(parts["password"]) if parts["password"] else None
    host = parts["host6"] or parts["host"] or None
    port = _port(parts["port"])
    place = f"[{host}]" if parts["host6"] else host or ""
    return StorageUrl(
        "postgresql",
        shown=clean(
            f"postgresql://{user + '@' if user else ''}{place}{f':{port}' if port else ''}"
            f"/{parts['database'] or ''}"
        ),
        user=user,
        password=password,
        host=host,
        port=port,
        database=parts["database"] or None,
        query=tuple(query),
        warnings=(VISIBLE_PASSWORD,) if password and not from_environment else (),
    )


def _port(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:6]) < 65536 or len(text) > 5:
        raise UsageError("the port of the postgresql:// URL is not a number from 1 to 65535")
    return int(text)


def _not_allowed(key: str) -> UsageError:
    return UsageError(
        f"parameter '{clean(key)}' is not allowed", hint=f"postgresql:// takes {', '.join(POSTGRES_KEYS)}"
    )


def _redacted(text: str) -> str:
    """User text for a message, less whatever may be a user and a password."""
    _, at, after = text.rpartition("@")
    return clean(re.sub(r"(?i)(password=)\S+", r"\1***", f"***@{after}" if at else text))
