"""A server that cannot be reached for a while, and one that takes few connections."""

import json
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
from worker_processes import (
    ended,
    is_measuring,
    opened,
    recorded_if_there,
    rows_in,
    rows_of,
    started,
    states,
    wait_until,
)  # fmt: skip

from advisor.lease_times import VARIABLE

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


@pytest.mark.skipif(not HAS_NETWORKS, reason="no network of our own may be made")
def test_a_worker_that_is_cut_off_loses_its_trial_and_its_late_result(
    own_server: Any, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = a_database(own_server.get_uri(), "cut")
    through = f"postgresql://postgres@127.0.0.1:{PORT}/cut"
    times = {VARIABLE: "period_s=0.5,expiry_s=5,deadline_s=5,limit_s=300"}
    with a_network(own_server.pgdata / ".s.PGSQL.5432") as within:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", within_network(target.parent, within))
            far = started(through, target, "--trials", "2", "--seconds", "20", **times)
        try:
            wait_until(lambda: is_measuring(direct))
            subprocess.run([*within, "ip", "link", "set", "lo", "down"], check=True)
            wait_until(lambda: rows_of(direct, "running") == 1)
            near = started(direct, target, "--trials", "3", "--seconds", "3", **times)
            code, out, err = ended(near)
            assert (code, json.loads(out)["lost"]) == (0, 0), err
            before = recorded_if_there(direct)
            subprocess.run([*within, "ip", "link", "set", "lo", "up"], check=True)
            code, out, err = ended(far)
        finally:
            far.kill()
    assert code == 0, err
    assert json.loads(out)["lost"] == 1
    with opened(direct) as store:
        rows = rows_in(store)
    (lost,) = [row for row in rows if row.state == "failed"]
    assert lost.data["cause"] == "lost_lease"
    assert [row.state for row in rows if row.key == lost.key] == ["failed", "complete"]
    assert recorded_if_there(direct) >= before == 3
    assert "RUNNING" not in states(direct)


def within_network(folder: Path, within: list[str]) -> str:
    """A program that is Python in another network."""
    program = folder / "python-within"
    program.write_text(f'#!/bin/sh\nexec {" ".join(within)} {sys.executable} "$@"\n')
    program.chmod(0o700)
    return str(program)


def test_a_server_that_takes_few_connections_is_waited_for_and_says_what_helps(
    own_server: Any, target: Path
) -> None:
    uri = own_server.get_uri()
    a_database(uri, "crowded")
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE ROLE few LOGIN")
        connection.execute("ALTER DATABASE crowded OWNER TO few")
    url = uri.replace("postgres:@", "few@").replace("/postgres?", "/crowded?")
    times = {VARIABLE: "period_s=0.5,expiry_s=60,deadline_s=30,limit_s=60"}
    assert ended(started(url, target, "--trials", "1", **times))[0] == 0
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("ALTER ROLE few CONNECTION LIMIT 2")
    crowd = [psycopg.connect(url) for _ in range(2)]
    worker = started(url, target, "--trials", "3", **times)
    try:
        assert worker.stderr is not None
        said = ""
        while "no more connections" not in said:
            line = worker.stderr.readline()
            assert line, said
            said += line
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute("ALTER ROLE few CONNECTION LIMIT 12")
        code, out, err = ended(worker)
    finally:
        for each in crowd:
            each.close()
        worker.kill()
    assert code == 0, said + err
    assert json.loads(out)["trials"] == 3


def test_a_server_that_never_takes_another_connection_ends_the_command(own_server: Any, target: Path) -> None:
    uri = own_server.get_uri()
    a_database(uri, "closed")
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE ROLE nobody_more LOGIN CONNECTION LIMIT 0")
    url = uri.replace("postgres:@", "nobody_more@").replace("/postgres?", "/closed?")
    command = [sys.executable, "-m", "advisor", "studies", "--storage", url]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 5, done.stderr
    assert "takes no more connections" in done.stderr and "max_connections" in done.stderr
