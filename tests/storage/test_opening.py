"""What is refused is left as it was; what is made is whole or gone."""

import importlib.metadata
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.base.errors import AdvisorError, EnvironmentProblem, UsageError
from advisor.storage.opening import open_database
from advisor.storage.storage_url import DEFAULT_STORAGE, parse_storage

VERSION = importlib.metadata.version("torch-advisor")
NO_DATABASE = "x.db is not a SQLite database; left untouched"
DAMAGED = "x.db is damaged; left untouched"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def open_and_close(url: str = "sqlite:///x.db", create: bool = True) -> None:
    open_database(parse_storage(url), create=create, warn=print).close()


def a_database(file: Path, *statements: str) -> None:
    connection = sqlite3.connect(file)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and time of change of every file but the lock."""
    return {
        path.name: (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns)
        for path in folder.iterdir()
        if path.suffix != ".lock"
    }


def text_file(file: Path) -> None:
    file.write_text("some notes\n" * 100)


def short_text_file(file: Path) -> None:
    file.write_text("x")


def truncated(file: Path) -> None:
    open_and_close()
    os.truncate(file, file.stat().st_size // 2)


def overwritten(file: Path) -> None:
    a_database(file, "CREATE TABLE advisor_version (schema INTEGER, advisor TEXT)")
    content = bytearray(file.read_bytes())
    content[4096:4196] = b"\xff" * 100
    file.write_bytes(content)


def of_a_browser(file: Path) -> None:
    a_database(file, "CREATE TABLE moz_places (id)", "CREATE TABLE moz_zones (id)")


def of_another_program_with_studies(file: Path) -> None:
    a_database(file, "CREATE TABLE studies (id)")


def newer(file: Path) -> None:
    a_database(
        file,
        "CREATE TABLE advisor_version (schema INTEGER, advisor TEXT)",
        "INSERT INTO advisor_version VALUES (9999, '3.1')",
    )


@pytest.mark.parametrize(
    ("make", "kind", "message", "hint"),
    [
        (text_file, EnvironmentProblem, NO_DATABASE, "another file"),
        (short_text_file, EnvironmentProblem, NO_DATABASE, "another file"),
        (os.mkfifo, EnvironmentProblem, NO_DATABASE, "another file"),
        (truncated, EnvironmentProblem, DAMAGED, "`sqlite3 x.db .recover`; finished"),
        (overwritten, EnvironmentProblem, DAMAGED, "`sqlite3 x.db .recover`; finished"),
        (
            of_a_browser, UsageError,
            "x.db holds tables of another program (moz_places, ...); left untouched", "another file",
        ),
        (
            of_another_program_with_studies, UsageError,
            "x.db holds tables of another program (studies); left untouched", "another file",
        ),
        (
            newer, EnvironmentProblem,
            f"x.db was made by advisor 3.1, this is {VERSION}; left untouched",
            "`pip install --upgrade /path/to/advisor`",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("create", [True, False])
def test_a_file_that_is_not_ours_is_refused_and_left_untouched(
    here: Path, make: Callable[[Path], None], kind: type[AdvisorError], message: str, hint: str, create: bool
) -> None:
    make(here / "x.db")
    (here / "x.db").chmod(0o600)
    before = contents(here)
    with pytest.raises(kind) as refused:
        open_and_close(create=create)
    assert refused.value.message == message
    assert refused.value.hint is not None and hint in refused.value.hint
    assert contents(here) == before


@pytest.mark.parametrize("name", ["a b.db", "what?%20#&.db", "{x}.db", "ü.db"])
def test_a_file_may_have_any_name(here: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = here / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    open_and_close()
    open_and_close(create=False)
    assert (folder / "x.db").read_bytes().startswith(b"SQLite format 3\0")


def test_nothing_is_made_for_who_only_reads(here: Path) -> None:
    for url, file in ((DEFAULT_STORAGE, ".advisor/studies.db"), ("sqlite:///x.db", "x.db")):
        with pytest.raises(UsageError) as refused:
            open_and_close(url, create=False)
        assert refused.value.message == f"no such file: {file}"
    (here / "x.db").touch(mode=0o600)
    with pytest.raises(UsageError, match=r"x\.db holds no studies of advisor"):
        open_and_close(create=False)
    assert [(path.name, path.stat().st_size) for path in here.iterdir()] == [("x.db", 0)]


def test_our_tables_may_stand_beside_optunas(here: Path) -> None:
    import optuna

    optuna.create_study(storage="sqlite:///x.db", study_name="mine")
    (here / "x.db").chmod(0o600)
    open_and_close()
    open_and_close(create=False)
    assert optuna.get_all_study_names("sqlite:///x.db") == ["mine"]


@pytest.mark.parametrize(
    ("path", "mode", "message"),
    [
        (".advisor/studies.db", 0o620, "others can change .advisor/studies.db"),
        (".advisor/studies.db", 0o606, "others can change .advisor/studies.db"),
        (".advisor", 0o770, "others can write to .advisor"),
        (".advisor", 0o707, "others can write to .advisor"),
    ],
)
def test_what_others_can_write_is_refused(here: Path, path: str, mode: int, message: str) -> None:
    open_and_close(DEFAULT_STORAGE)
    (here / path).chmod(mode)
    with pytest.raises(EnvironmentProblem) as refused:
        open_and_close(DEFAULT_STORAGE)
    assert (refused.value.message, refused.value.hint) == (message, f"`chmod go-w {path}`")


def test_a_folder_like_tmp_is_no_danger(here: Path) -> None:
    here.chmod(0o1777)
    open_and_close()
    assert (here / "x.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everywhere")
def test_a_file_that_cannot_be_read_is_said_to_be_so(here: Path) -> None:
    open_and_close()
    (here / "x.db").chmod(0)
    with pytest.raises(EnvironmentProblem, match=r"cannot read x\.db: permission denied"):
        open_and_close()


def small_files_only() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


def test_a_file_that_could_not_be_finished_is_removed(here: Path) -> None:
    program = (
        "from advisor.storage.storage_url import parse_storage\n"
        "from advisor.storage.opening import open_database\n"
        "from advisor.base.errors import EnvironmentProblem\n"
        "try: open_database(parse_storage('sqlite:///x.db'), create=True, warn=print)\n"
        "except EnvironmentProblem as error: print(error.exit_code, error.message)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        preexec_fn=small_files_only,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout in ("5 cannot read or write x.db\n", "5 no space left for x.db\n")
    assert [path.name for path in here.iterdir() if path.name != "x.db.lock"] == []
    open_and_close()
