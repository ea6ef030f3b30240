"""A server that cannot be reached for a while, and one that takes few connections."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgresql import a_database

pytestmark = pytest.mark.faults

RELAY = Path(__file__).with_name("tcp_relay.py")
PORT = 54329  # in a network of its own nobody else has it
ROOT = os.geteuid() == 0  # the server runs as another user then, whose socket a mapped root may not use
NETWORK = ["unshare", "-n" if ROOT else "-Urn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
HAS_NETWORKS = shutil.which("ip") is not None and subprocess.call([*NETWORK, "true"]) == 0


@contextmanager
def a_network(socket: Path) -> Iterator[list[str]]:
    """A network with nothing but a way to a server; the words that run a command in it."""
    command = [*NETWORK, sys.executable, str(RELAY), str(PORT), str(socket)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as relay:
        try:
            assert relay.stdout is not None and relay.stdout.readline() == "ready\n"
            user = [] if ROOT else ["-U", "--preserve-credentials"]
            yield ["nsenter", "-t", str(relay.pid), "-n", *user]
        finally:
            relay.kill()


WRITING = """
import sys, time
from advisor.base.errors import EnvironmentProblem
from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store
store = Store.open(parse_storage(sys.argv[1]), create=True, warn=print)
store.create_study("train", {})
print("ready", flush=True)
sys.stdin.readline()
began = time.monotonic()
try:
    store.mark_status("train", "complete")
except EnvironmentProblem as error:
    print(error.exit_code, time.monotonic() - began, error.message, flush=True)
"""


@pytest.mark.skipif(not HAS_NETWORKS, reason="no network of our own may be made")
def test_a_tuner_that_is_cut_off_is_told_within_its_deadline(own_server: Any) -> None:
    a_database(own_server.get_uri(), "cut")
    url = f"postgresql://postgres@127.0.0.1:{PORT}/cut?connect_timeout=4&tcp_user_timeout=2000"
    with a_network(own_server.pgdata / ".s.PGSQL.5432") as within:
        command = [*within, sys.executable, "-c", WRITING, url]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tuner:
            assert tuner.stdout is not None and tuner.stdout.readline() == "ready\n"
            subprocess.run([*within, "ip", "link", "set", "lo", "down"], check=True)
            out, _ = tuner.communicate("\n", timeout=60)
    code, seconds, message = out.split(maxsplit=2)
    assert code == "5" and message.strip() in (
        "no PostgreSQL server answers", "the connection to PostgreSQL was lost",
    ), out  # fmt: skip
    assert float(seconds) < 20


def test_a_server_that_never_takes_another_connection_ends_the_command(own_server: Any) -> None:
    uri = own_server.get_uri()
    a_database(uri, "closed")
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE ROLE nobody_more LOGIN CONNECTION LIMIT 0")
    url = uri.replace("postgres:@", "nobody_more@").replace("/postgres?", "/closed?")
    command = [sys.executable, "-m", "advisor", "studies", "--storage", url]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 5, done.stderr
    assert "takes no more connections" in done.stderr and "max_connections" in done.stderr
