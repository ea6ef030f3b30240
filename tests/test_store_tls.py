"""A study on a server that speaks TLS: who it is is checked, and what is wrong is said."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgresql import a_database
from tls_server import PASSWORD, TlsServer, a_tls_server, missing
from worker_processes import ended, opened, recorded, recorded_if_there, started, states, wait_until

from advisor.lease_times import VARIABLE

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]


@pytest.fixture(scope="module")
def running() -> Iterator[TlsServer]:
    with a_tls_server() as server:
        yield server


@pytest.fixture
def tls(running: TlsServer) -> Iterator[TlsServer]:
    """A server that takes connections with TLS and without."""
    yield running
    running.set()


def told(url: str) -> "subprocess.CompletedProcess[str]":
    """``advisor studies``, with the URL where others cannot read it."""
    return subprocess.run(
        [sys.executable, "-m", "advisor", "studies"], env={**os.environ, "ADVISOR_STORAGE": url},
        text=True, capture_output=True, timeout=120,
    )  # fmt: skip


def test_a_study_is_measured_and_read_where_nothing_but_tls_is_admitted(tls: TlsServer, target: Path) -> None:
    tls.set(admits="hostssl")
    plain = told(tls.url(sslmode="disable"))
    assert plain.returncode == 5 and "PostgreSQL does not admit this connection" in plain.stderr
    url = a_database(tls.verified(), "verified")
    code, _, err = ended(started(url, target, "--trials", "2"))
    assert code == 0, err
    assert (recorded(url), states(url)) == (2, ["COMPLETE"] * 2)
    shown = told(url)
    assert shown.returncode == 0 and "train" in shown.stdout
    assert PASSWORD not in shown.stdout + shown.stderr + err


def test_a_worker_goes_on_when_its_connections_with_tls_were_ended(tls: TlsServer, target: Path) -> None:
    url = a_database(tls.verified(), "restarted")
    times = {VARIABLE: "period_s=0.5,expiry_s=60,deadline_s=60,limit_s=300"}
    worker = started(url, target, "--trials", "20", "--seconds", "0.2", **times)
    try:
        wait_until(lambda: recorded_if_there(url) >= 2)
        tls.set()
        code, _, err = ended(worker)
    finally:
        worker.kill()
    assert code == 0, err
    with opened(url):
        assert states(url) == ["COMPLETE"] * 20


REFUSED = {
    "wrong authority": (
        {"sslmode": "verify-full", "sslrootcert": "other.crt"}, "localhost",
        "the server's certificate cannot be verified", "certificate verify failed", "sslrootcert=PATH",
    ),
    "wrong host": (
        {"sslmode": "verify-full", "sslrootcert": "ca.crt"}, "127.0.0.1",
        "the server's certificate is for another host name",
        'does not match host name "127.0.0.1"', "use a name in the certificate",
    ),
    "no authority": (
        {"sslmode": "verify-full", "sslrootcert": "nowhere.crt"}, "localhost",
        "the certificate of the authority cannot be read", "nowhere.crt", "sslrootcert=PATH",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", REFUSED)
def test_a_server_that_cannot_be_verified_is_refused_with_the_reason(tls: TlsServer, wrong: str) -> None:
    query, host, message, cause, hint = REFUSED[wrong]
    place = {**query, "sslrootcert": str(tls.folder / query["sslrootcert"])}
    refused(told(tls.url(host=host, **place)), tls, host, message, cause, hint)


def test_a_server_without_tls_is_refused_where_tls_is_required(tls: TlsServer) -> None:
    tls.set(tls=False)
    cause, hint = "server does not support SSL, but SSL was required", "set `ssl = on`"
    refused(told(tls.url(sslmode="require")), tls, "localhost", "the server does not speak TLS", cause, hint)


def refused(
    done: "subprocess.CompletedProcess[str]", tls: TlsServer, host: str, message: str, cause: str, hint: str
) -> None:
    error, place, why, advice, *_ = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (5, "")
    assert error == f"error: {message}"
    assert place == f"  --> postgresql://postgres@{host}:{tls.port}/postgres"
    assert why.startswith("  cause: ") and cause in why
    assert advice.startswith("  hint: ") and hint in advice
    assert PASSWORD not in done.stderr


def test_a_worker_does_not_wait_for_a_certificate_to_become_right(tls: TlsServer, target: Path) -> None:
    wrong = tls.url(sslmode="verify-full", sslrootcert=str(tls.folder / "other.crt"))
    code, _, err = ended(started(wrong, target, "--trials", "1"))
    assert code == 5 and "the server's certificate cannot be verified" in err
    assert "trying again" not in err
    assert PASSWORD not in err
