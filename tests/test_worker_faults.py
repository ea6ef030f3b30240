"""Eight workers on a server that loses connections, restarts, crashes, is away, and hangs."""

import json
import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from postgresql import a_database, control
from scripted_worker import a_machine
from worker_processes import (
    ended,
    is_measuring,
    opened,
    recorded,
    recorded_if_there,
    rows_in,
    rows_of,
    started,
    states,
    wait_until,
)  # fmt: skip

from advisor.announcing import optuna_name, settle
from advisor.lease_times import VARIABLE, LeaseTimes
from advisor.leases import TrialLeases
from advisor.spool import Spool
from advisor.storage_url import parse_storage

pytestmark = pytest.mark.faults
TIMES = {VARIABLE: "period_s=0.5,expiry_s=60,deadline_s=60,limit_s=600"}
GROUP = a_machine().fingerprint


def backends(uri: str) -> list[int]:
    """Process ids of all backends but our own."""
    import psycopg

    query = (
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(uri, autocommit=True) as connection:
        return [row[0] for row in connection.execute(query).fetchall()]


def terminate_one(uri: str) -> None:
    import psycopg

    with suppress(psycopg.Error), psycopg.connect(uri, autocommit=True) as connection:
        victims = backends(uri)
        if victims:
            connection.execute("SELECT pg_terminate_backend(%s)", (random.choice(victims),))


def stopped(uri: str) -> list[int]:
    """Stop all backends but our own, between two statements; their process ids.

    One that is stopped while it writes the log of the server holds up every other one.
    """
    import psycopg

    at_work = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s) AND state <> 'idle'"
    while True:
        pids = backends(uri)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        with psycopg.connect(uri, autocommit=True) as connection:
            if pids and connection.execute(at_work, (pids,)).fetchall() == [(0,)]:
                return pids
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)


def said(err: str) -> str:
    """What a worker told, less its progress."""
    return "\n".join(line for line in err.splitlines() if not line.endswith("so far"))[-1500:]


def stop_all(workers: "list[subprocess.Popen[str]]") -> None:
    for worker in workers:
        worker.kill()


def test_two_hundred_trials_survive_lost_connections_a_restart_and_a_crash(
    own_server: Any, target: Path
) -> None:
    random.seed(0)
    uri = own_server.get_uri()
    url = a_database(uri, "mistreated")
    workers = [started(url, target, "--seconds", "0.2", **TIMES) for _ in range(8)]
    try:
        wait_until(lambda: recorded_if_there(url) >= 10)
        for count in range(12):
            terminate_one(uri)
            time.sleep(0.3)
            if count == 4:
                control(own_server, "-m", "fast", "restart")
            if count == 8:
                control(own_server, "-m", "immediate", "stop")
                time.sleep(5)  # away
                control(own_server, "-m", "fast", "restart")
        results = [ended(worker) for worker in workers]
    finally:
        stop_all(workers)
    problems = [said(err) for code, _, err in results if code]
    assert problems == []
    reports = [json.loads(out) for _, out, _ in results]
    with opened(url) as store:
        group = TrialLeases(store.database, "train", GROUP, LeaseTimes())
        settle(store.optuna_study(optuna_name("train", GROUP), None), group)
        rows = rows_in(store)
    complete = [row for row in rows if row.state == "complete"]
    assert len({row.key for row in rows}) == 200, "the whole space was taken"
    assert len({row.key for row in complete}) == len(complete) == 200, "none lost, none twice"
    assert not [row for row in rows if row.state in ("running", "queued")]
    assert sum(report["trials"] - report["lost"] for report in reports) <= len(complete)
    assert Spool(target.parent / "spool", str(parse_storage(url))).waiting() == []
    found = states(url)
    assert found.count("COMPLETE") == 200 and "RUNNING" not in found


def test_a_backend_that_hangs_is_left_for_a_new_connection(own_server: Any, target: Path) -> None:
    uri = own_server.get_uri()
    url = a_database(uri, "frozen")
    times = {VARIABLE: "period_s=1,expiry_s=120,deadline_s=15,limit_s=600"}
    worker = started(url, target, "--trials", "30", "--seconds", "0.2", **times)
    frozen: list[int] = []
    try:
        wait_until(lambda: recorded_if_there(url) >= 2)
        frozen += stopped(uri)
        before = recorded(url)
        wait_until(lambda: recorded(url) >= before + 5)  # they still hang
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        code, out, err = ended(worker)
    finally:
        for pid in frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        worker.kill()
    assert code == 0, err
    assert "the database does not answer" in err and "the database answers again" in err
    assert json.loads(out) == {"trials": 30, "lost": 0, "stopped_by": "trials"}
    assert states(url) == ["COMPLETE"] * 30


def test_a_worker_that_is_killed_loses_its_trial_to_another(own_server: Any, target: Path) -> None:
    url = a_database(own_server.get_uri(), "killed")
    times = {VARIABLE: "period_s=0.2,expiry_s=5,deadline_s=60,limit_s=120"}
    gone = started(url, target, "--seconds", "60", **times)
    try:
        wait_until(lambda: recorded_if_there(url) == 0 and rows_of(url, "running") == 1)
        gone.kill()
        gone.communicate()
        other = started(url, target, "--trials", "3", "--seconds", "3", **times)  # longer than a lease
        assert ended(other)[0] == 0
    finally:
        gone.kill()
    with opened(url) as store:
        rows = rows_in(store)
    (lost,) = [row for row in rows if row.state == "failed"]
    assert lost.data["cause"] == "lost_lease"
    assert [row.state for row in rows if row.key == lost.key] == ["failed", "complete"]
    assert "RUNNING" not in states(url)


def test_a_server_that_does_not_come_back_ends_the_worker_with_the_path_of_its_results(
    own_server: Any, target: Path
) -> None:
    url = a_database(own_server.get_uri(), "away")
    times = {VARIABLE: "period_s=0.5,expiry_s=90,deadline_s=30,limit_s=8"}
    worker = started(url, target, "--seconds", "8", **times)
    try:
        wait_until(lambda: is_measuring(url))
        control(own_server, "-m", "immediate", "stop")
        code, _, err = ended(worker)
        control(own_server, "-m", "fast", "restart")
        assert code == 5
        assert "1 results are safe in" in err
        waiting = Spool(target.parent / "spool", str(parse_storage(url))).waiting()
        assert [result.number for result in waiting] == [1]
        rest = started(url, target, "--trials", "1", **times)
        assert ended(rest)[0] == 0
    finally:
        worker.kill()
    with opened(url) as store:
        rows = {row.number: row for row in rows_in(store)}
    assert (rows[1].state, rows[1].attempt) == ("complete", 1)
