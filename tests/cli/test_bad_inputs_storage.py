"""Wrong storages: rows 53 to 67 of the table of bad inputs."""

import os
import sqlite3
from pathlib import Path

import pytest
from bad_inputs import SECRET, Row, assert_quick, assert_refused, tune
from command_line import contents, go_to, say

from advisor.base.errors import UsageError
from advisor.storage.storage_error import problem
from advisor.storage.storage_url import parse_storage

URLS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "53": ("", 2, ("storage is empty", "leave it out for the default file")),
    "54": ("foo", 2, ("'foo' is not a storage URL", "`sqlite:///path.db` or `postgresql://USER@HOST/DB`")),
    "55": ("foosql://x/y", 2, ("'foosql' is not supported", "sqlite, postgresql")),
    "56": (f"mysql://u:{SECRET}@h/d", 2, ("'mysql' is not supported", "sqlite, postgresql")),
    "56 redis": (f"redis://:{SECRET}@h", 2, ("'redis' is not supported",)),
    "57": ("sqlite:///nodir/x.db", 2, ("no such directory: nodir",)),
    "58": ("sqlite:///notes/", 2, ("notes/ is a directory",)),
    "59": ("sqlite:///notes.txt", 5, ("notes.txt is not a SQLite database; left untouched", "log: ")),
    "60": ("sqlite:///damaged.db", 5, ("damaged.db is damaged; left untouched",
                                       "`sqlite3 damaged.db .recover`; finished reports stay readable")),
    "61": ("sqlite:///places.db", 2,
           ("places.db holds tables of another program (moz_places, ...); left untouched", "another file")),
    "62": ("sqlite:///newer.db", 5, ("newer.db was made by advisor 3.1, this is ", "pip install --upgrade")),
    "63": ("sqlite:///x.db?plugin=x", 2, ("parameter 'plugin' is not allowed",)),
    "63 of a server": (f"postgresql://u:{SECRET}@h/d?plugin=x", 2, ("parameter 'plugin' is not allowed",)),
    "65 refused": (f"postgresql://ada:{SECRET}@127.0.0.1:1/lab", 5,
                   ("no PostgreSQL server answers", "--> postgresql://ada@127.0.0.1:1/lab",
                    "start it, or check host and port")),
}  # fmt: skip
UNTOLD = ("Could not parse", "unable to open", "sqlalche.me", "file is not a database")
DATABASES = ("59", "60", "61", "62", "65 refused")  # what only opening them can tell
COMMANDS = {"tune": tune(), "studies": ("studies",), "report": ("report", "train")}


def databases(folder: Path) -> None:
    """Files that are no database of ours, each in its own way."""
    (folder / "notes").mkdir()
    (folder / "notes.txt").write_text("my notes\n" * 100)
    for name, statements in (
        ("places.db", ["CREATE TABLE moz_places (id)", "CREATE TABLE moz_zones (id)"]),
        ("newer.db", ["CREATE TABLE advisor_version (schema INTEGER, advisor TEXT)",
                      "INSERT INTO advisor_version VALUES (9999, '3.1')"]),
        ("damaged.db", ["CREATE TABLE advisor_version (schema INTEGER, advisor TEXT)",
                        "CREATE TABLE advisor_studies (id)"]),
    ):  # fmt: skip
        with sqlite3.connect(folder / name) as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()
        (folder / name).chmod(0o600)
    os.truncate(folder / "damaged.db", (folder / "damaged.db").stat().st_size // 2)


def asked(words: tuple[str, ...], url: str) -> tuple[str, ...]:
    """A command with this storage; what it finds there is wanted as Markdown, not as HTML."""
    return (*words, "--storage", url, *(["--format", "md"] if words[0] == "report" else []))


ROWS = {
    f"{name} {command}": Row(asked(words, url), code, told, untold=UNTOLD, lay=databases)
    for name, (url, code, told) in URLS.items()
    for command, words in COMMANDS.items()
    if command != "tune" or name not in DATABASES
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    return go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_storage_that_cannot_be_used_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, row: Row
) -> None:
    if "65" in str(row) or "postgresql" in str(row):
        pytest.importorskip("psycopg", reason="psycopg is not installed")
    assert_refused(row, here, capsys, monkeypatch)


def test_refusing_a_storage_is_quick(here: Path) -> None:
    assert_quick({name: row for name, row in ROWS.items() if "65" not in name}, here)


@pytest.mark.parametrize("name", [name for name in DATABASES if not name.startswith("65")])
def test_a_search_leaves_a_file_that_is_not_ours_as_it_was(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    databases(here)
    url, code, told = URLS[name]
    (here / "train.py").write_text("import torch\n")
    before = contents(here)
    said = say(capsys, *tune("--quiet", "--storage", url))
    assert (said.code, said.blocks, said.out) == (code, 1, "")
    assert all(text in said.err for text in told)
    assert contents(here) == before


def test_64_a_password_on_the_command_line_is_warned_about_once_and_never_shown(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    (here / "train.py").write_text("import torch\n")
    url = f"postgresql://ada:{SECRET}@localhost/db"
    typed = say(capsys, *tune("--storage", url, "--dry-run"))
    assert typed.code == 0
    assert typed.err.count("warning: the password in --storage is visible to other users") == 1
    assert "PGPASSFILE, ~/.pgpass or ADVISOR_STORAGE" in typed.err
    monkeypatch.setenv("ADVISOR_STORAGE", url)
    kept = say(capsys, *tune("--dry-run"))
    assert kept.err == ""
    assert SECRET not in typed.out + typed.err + kept.out


SERVER: dict[str, tuple[str, str, str]] = {
    "refused": ("connection to server at \"h\" failed: Connection refused\n\tIs the server running?",
                "no PostgreSQL server answers", "start it, or check host and port"),
    "wrong password": ("FATAL:  password authentication failed for user \"ada\"",
                       "PostgreSQL refused the password", "put it in ~/.pgpass, PGPASSFILE"),
    "no database": ("FATAL:  database \"lab\" does not exist", "the database does not exist",
                    "`createdb NAME`"),
    "too many connections": ("FATAL:  sorry, too many clients already",
                             "PostgreSQL takes no more connections", "raise max_connections"),
    "TLS": ("SSL error: no protocols available", "TLS to PostgreSQL failed", "check sslmode"),
    "certificate": ("SSL error: certificate verify failed", "the server's certificate cannot be verified",
                    "sslrootcert=PATH"),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "message", "hint"), SERVER.values(), ids=SERVER)
def test_65_a_server_that_refuses_is_told_in_a_line_without_the_password(
    raw: str, message: str, hint: str
) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    url = parse_storage(f"postgresql://ada:{SECRET}@h/lab", from_environment=True)
    error = problem(RuntimeError(f"{raw} {SECRET}"), url)
    assert (error.message, error.exit_code) == (message, 5)
    assert error.hint is not None and hint in error.hint
    assert SECRET not in str(error)


def test_65_without_psycopg_the_extra_is_named(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("advisor.storage.storage_url.importlib.util.find_spec", lambda name: None)
    said = say(capsys, "studies", "--storage", f"postgresql://ada:{SECRET}@h/lab")
    assert (said.code, said.blocks) == (5, 1)
    assert "postgresql:// needs the extra" in said.err
    assert "hint: `pip install '/path/to/advisor[postgres]'`" in said.err
    assert SECRET not in said.err


def test_67_sqlite_serves_one_machine(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/home {tmp_path} nfs4 rw 0 0\n")
    with pytest.raises(UsageError, match="SQLite serves one machine") as refused:
        parse_storage(f"sqlite:///{tmp_path}/x.db", mounts=mounts)
    assert refused.value.hint == "`postgresql://USER@HOST/DB`"
