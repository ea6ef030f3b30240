"""Who writes waits for who writes already, and says so."""

import os
import re
import sqlite3
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from advisor.base.errors import EnvironmentProblem
from advisor.storage.database import Database, Patience, engine_address, engine_options
from advisor.storage.storage_error import problem
from advisor.storage.storage_url import StorageUrl


def a_database(file: Path, told: list[str], limit_s: float, *, wal: bool = True) -> Database:
    setup = sqlite3.connect(file)
    setup.execute(f"PRAGMA journal_mode={'WAL' if wal else 'DELETE'}")
    setup.execute("CREATE TABLE t (n INTEGER)")
    setup.close()
    url = StorageUrl("sqlite", shown="x.db", path=file)
    options = engine_options(url, Patience("x.db", told.append, notice_s=0.2, limit_s=limit_s))
    return Database(url, sa.create_engine(engine_address(url), **options), options)


def insert(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(sa.table("t", sa.column("n")).insert().values(n=1))


def numbers(database: Database) -> list[int]:
    with database.reading() as connection:
        return list(connection.execute(sa.select(sa.table("t", sa.column("n")).c.n)).scalars())


@pytest.mark.parametrize("wal", [True, False])
def test_a_writer_waits_for_another_and_says_so_once(tmp_path: Path, wal: bool) -> None:
    told: list[str] = []
    database = a_database(tmp_path / "x.db", told, limit_s=30, wal=wal)
    other = sqlite3.connect(tmp_path / "x.db", check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO t VALUES (0)")
    timer = threading.Timer(0.9, other.commit)
    timer.start()
    insert(database)
    timer.join()
    assert told == ["waiting for x.db: another process is writing to it"]
    assert numbers(database) == [0, 1]
    other.close()
    database.close()


def test_a_short_wait_is_not_worth_a_message(tmp_path: Path) -> None:
    told: list[str] = []
    database = a_database(tmp_path / "x.db", told, limit_s=30)
    insert(database)
    assert told == []
    database.close()


def test_a_lock_that_is_never_given_back_ends_the_wait(tmp_path: Path) -> None:
    told: list[str] = []
    database = a_database(tmp_path / "x.db", told, limit_s=0.5)
    other = sqlite3.connect(tmp_path / "x.db")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(EnvironmentProblem) as locked:
        insert(database)
    # The kernel names the holder where /proc/locks lists locks, which containers may hide.
    assert re.fullmatch(
        rf"x\.db is locked by (another process|process {os.getpid()} \(.+\))", locked.value.message
    )
    assert (locked.value.exit_code, locked.value.cause) == (5, "database is locked")
    other.rollback()
    insert(database)
    assert numbers(database) == [1]
    other.close()
    database.close()


def test_readers_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    told: list[str] = []
    database = a_database(tmp_path / "x.db", told, limit_s=0.5)
    other = sqlite3.connect(tmp_path / "x.db")
    other.execute("BEGIN IMMEDIATE")
    assert (numbers(database), told) == ([], [])
    other.close()
    database.close()


def test_a_failed_transaction_leaves_nothing(tmp_path: Path) -> None:
    database = a_database(tmp_path / "x.db", [], limit_s=1)
    with pytest.raises(ZeroDivisionError), database.writing() as connection:
        connection.execute(sa.table("t", sa.column("n")).insert().values(n=1))
        _ = 1 / 0
    assert numbers(database) == []
    database.close()


SERVER = StorageUrl("postgresql", shown="postgresql://ada@h/lab", user="ada", password="s3cret", host="h")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'connection failed: connection to server at "127.0.0.1", port 1 failed: Connection refused\n'
            "\tIs the server running on that host and accepting TCP/IP connections?",
            "no PostgreSQL server answers",
        ),
        ('FATAL:  password authentication failed for user "ada" s3cret', "PostgreSQL refused the password"),
        ('FATAL:  database "lab" does not exist', "the database does not exist"),
        ('FATAL:  role "ada" does not exist', "the user does not exist in PostgreSQL"),
        ("FATAL:  sorry, too many clients already", "PostgreSQL takes no more connections"),
        ("server does not support SSL, but SSL was required", "the server does not speak TLS"),
        ("SSL error: certificate verify failed", "the server's certificate cannot be verified"),
        (
            'server certificate for "db" (and 1 other name) does not match host name "h"',
            "the server's certificate is for another host name",
        ),
        (
            'root certificate file "/root.crt" does not exist',
            "the certificate of the authority cannot be read",
        ),
        ("SSL connection has been closed unexpectedly", "the connection to PostgreSQL was lost"),
        ("SSL error: tlsv1 alert unknown ca", "TLS to PostgreSQL failed"),
        (
            'FATAL:  no pg_hba.conf entry for host "h", user "ada", database "lab", SSL encryption',
            "PostgreSQL does not admit this connection",
        ),
        ('could not translate host name "h" to address', "the server's host is not known"),
        ("ERROR:  permission denied for schema public", "PostgreSQL does not allow it"),
        ("ERROR:  quelque chose", "PostgreSQL reports an error"),
    ],
)
def test_what_a_server_says_is_one_line_without_the_password(text: str, message: str) -> None:
    error = problem(Exception(text), SERVER)
    assert (error.message, error.where, error.exit_code) == (message, "postgresql://ada@h/lab", 5)
    assert "s3cret" not in str(error)
    assert error.cause is not None and "\n" not in error.cause


def test_of_several_addresses_the_one_that_says_what_is_wrong_is_told() -> None:
    text = (
        "connection failed: ... Multiple connection attempts failed. All failures were:\n"
        "- host: 'h', hostaddr: '10.0.0.1': connection failed: SSL error: certificate verify failed\n"
        "- host: 'h', hostaddr: '::1': connection failed: Connection refused\n"
        "\tIs the server running on that host and accepting TCP/IP connections?"
    )
    error = problem(Exception(text), SERVER)
    assert error.message == "the server's certificate cannot be verified"
    assert error.cause is not None and "10.0.0.1" in error.cause
