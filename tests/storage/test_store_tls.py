"""A study on a server that speaks TLS: who it is is checked, and what is wrong is said."""

import os
import subprocess
from collections.abc import Iterator

import pytest
from postgresql import a_database
from tls_server import PASSWORD, TlsServer, a_tls_server, missing
from warm import Warm

from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store

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


def told(warm: Warm, url: str) -> "subprocess.CompletedProcess[str]":
    """``advisor studies``, with the URL where others cannot read it."""
    return warm.run("-m", "advisor", "studies", env={**os.environ, "ADVISOR_STORAGE": url})


def test_a_study_is_written_and_read_where_nothing_but_tls_is_admitted(tls: TlsServer, warm: Warm) -> None:
    tls.set(admits="hostssl")
    plain = told(warm, tls.url(sslmode="disable"))
    assert plain.returncode == 5 and "PostgreSQL does not admit this connection" in plain.stderr
    url = a_database(tls.verified(), "verified")
    with Store.open(parse_storage(url, from_environment=True), create=True, warn=print) as store:
        store.create_study("train", {"target": "train.py"})
        study = store.optuna_study("train", None)
        study.tell(study.ask(), 1.0)
    shown = told(warm, url)
    assert shown.returncode == 0 and "train" in shown.stdout
    assert PASSWORD not in shown.stdout + shown.stderr


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
def test_a_server_that_cannot_be_verified_is_refused_with_the_reason(
    tls: TlsServer, warm: Warm, wrong: str
) -> None:
    query, host, message, cause, hint = REFUSED[wrong]
    place = {**query, "sslrootcert": str(tls.folder / query["sslrootcert"])}
    refused(told(warm, tls.url(host=host, **place)), tls, host, message, cause, hint)


@pytest.mark.long
def test_a_server_without_tls_is_refused_where_tls_is_required(tls: TlsServer, warm: Warm) -> None:
    tls.set(tls=False)
    cause, hint = "server does not support SSL, but SSL was required", "set `ssl = on`"
    refused(
        told(warm, tls.url(sslmode="require")), tls, "localhost", "the server does not speak TLS", cause, hint
    )


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
