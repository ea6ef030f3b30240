"""A PostgreSQL server that speaks TLS, with certificates made for it, for tests of the way to a server.

The server of ``postgresql.py`` is built without TLS, so this one is the system's: Debian's package
``postgresql``. Certificates are made by ``openssl``.
"""

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PASSWORD = "s3cret-of-the-server"
SYSTEM_USER = "postgres"  # as root a server refuses to run; the package makes this user
DEBIAN = Path("/usr/lib/postgresql")
SETTINGS = """
listen_addresses = 'localhost'
unix_socket_directories = ''
fsync = off
ssl_cert_file = '{folder}/server.crt'
ssl_key_file = '{folder}/server.key'
"""


def _programs() -> Path | None:
    """Where the newest server of the system has its programs."""
    folders = [path.parent for path in DEBIAN.glob("*/bin/postgres")]
    return max(folders, key=lambda folder: int(folder.parent.name), default=None)


def missing() -> str:
    """What is not there of what a server with TLS takes; empty when everything is."""
    lacking = ["psycopg"] if importlib.util.find_spec("psycopg") is None else []
    lacking += ["Debian's postgresql"] if _programs() is None else []
    lacking += ["openssl"] if shutil.which("openssl") is None else []
    return f"not installed: {', '.join(lacking)}" if lacking else ""


@dataclass(frozen=True)
class TlsServer:
    """A running server; its certificate is for ``localhost`` alone.

    Attributes:
        folder: Holds the data, ``ca.crt``, and ``other.crt`` of a CA that signed nothing.
        port: Where it listens.
    """

    folder: Path
    port: int

    def url(self, database: str = "postgres", *, host: str = "localhost", **query: str) -> str:
        """The address of a database, with the password in it."""
        more = "&".join(f"{name}={value}" for name, value in query.items())
        return f"postgresql://postgres:{PASSWORD}@{host}:{self.port}/{database}?{more}"

    def verified(self, database: str = "postgres") -> str:
        """The address with which certificate and name are checked."""
        return self.url(database, sslmode="verify-full", sslrootcert=str(self.folder / "ca.crt"))

    def set(self, *, tls: bool = True, admits: str = "host") -> None:
        """Restart it, with or without TLS, admitting what ``pg_hba.conf`` calls ``admits``."""
        data = self.folder / "data"
        (data / "postgresql.auto.conf").write_text(f"port = {self.port}\nssl = {'on' if tls else 'off'}\n")
        (data / "pg_hba.conf").write_text(f"{admits} all all localhost scram-sha-256\n")
        _run("pg_ctl", "-w", "-D", data, "-m", "fast", "stop", check=False)  # at first there is none
        _run("pg_ctl", "-w", "-D", data, "-l", self.folder / "log", "start")


@contextmanager
def a_tls_server() -> Iterator[TlsServer]:
    """A server in a folder of its own, which only its own user reads."""
    with tempfile.TemporaryDirectory(prefix="advisor-tls-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        _certificates(folder)
        (folder / "password").write_text(PASSWORD)
        if os.geteuid() == 0:
            folder.chmod(0o711)  # the CA's certificate is for clients of other users
            for path in (folder, folder / "server.key", folder / "password"):
                shutil.chown(path, SYSTEM_USER)
        data = folder / "data"
        _run("initdb", "-D", data, "-U", "postgres", "-A", "scram-sha-256", "--no-sync", "--locale=C",
             "--encoding=UTF8", f"--pwfile={folder / 'password'}")  # fmt: skip
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS.format(folder=folder))
        server = TlsServer(folder, _free_port())
        try:
            server.set()
            yield server
        finally:
            _run("pg_ctl", "-w", "-D", data, "-m", "immediate", "stop", check=False)


def _run(program: str, *words: str | Path, check: bool = True) -> None:
    folder = _programs()
    assert folder is not None
    user = SYSTEM_USER if os.geteuid() == 0 else None
    subprocess.run(
        [folder / program, *words], check=check, user=user, group=user and pwd.getpwnam(user).pw_gid,
        cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip


def _certificates(folder: Path) -> None:
    """Two authorities, and a certificate for ``localhost`` by the first."""
    for name in ("ca", "other"):
        _certificate(folder, name, "-subj", f"/CN=advisor test {name}")
    _certificate(
        folder, "server", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
        "-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key"),
    )  # fmt: skip


def _certificate(folder: Path, name: str, *options: str) -> None:
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, *options],
        check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o600)


def _free_port() -> int:
    with socket.create_server(("localhost", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port
