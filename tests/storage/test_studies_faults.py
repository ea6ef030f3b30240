"""What may happen to the storage while it is used: each is one plain message, and what was kept stays."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from result_builder import a_result
from test_migrations import of_first_schema

from advisor.base.errors import EnvironmentProblem
from advisor.result.document import Trial
from advisor.storage.database import LIMIT_VARIABLE, lock_path
from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store

pytestmark = pytest.mark.slow

URL = "sqlite:///x.db"
ADVISOR = [sys.executable, "-m", "advisor"]
NAMESPACES = (
    shutil.which("unshare") is not None
    and not subprocess.run(["unshare", "-Urm", "true"], capture_output=True).returncode
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def silent(text: str) -> None:
    raise AssertionError(text)


def test_a_read_only_mount_is_read_and_another_place_is_named_to_who_writes(here: Path) -> None:
    if not NAMESPACES:
        pytest.skip("no user namespaces here")
    (here / "train.py").write_text("import torch\n")
    (here / ".advisor").mkdir(mode=0o700)
    of_first_schema(here / ".advisor/studies.db")
    with Store.open(parse_storage("sqlite:///.advisor/studies.db"), create=False, warn=silent) as store:
        store.mark_status("train", "complete")
    commands = {
        "list": ["studies", "--format", "json"],
        "show": ["report", "train", "--format", "json"],
        "tune": ["tune", "train.py", "--budget", "10s"],
        "elsewhere": [
            "tune",
            "train.py",
            "--budget",
            "10s",
            "--out",
            "/dev/shm/advisor-no-such/../advisor-x",
        ],
    }
    program = (
        "import json, subprocess, sys\nsaid = {}\n"
        "for name, words in json.loads(sys.argv[1]).items():\n"
        "    run = [sys.executable, '-m', 'advisor', *words]\n"
        "    ran = subprocess.run(run, capture_output=True, text=True)\n"
        "    said[name] = [ran.returncode, ran.stdout, ran.stderr]\n"
        "print(json.dumps(said))\n"
    )
    mount = f'mount --bind "{here}" "{here}" && mount -o remount,bind,ro "{here}" && cd "{here}" && exec "$@"'
    commands["elsewhere"][-1] = tempfile.mkdtemp(prefix="advisor-out-")
    ran = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", mount, "sh", sys.executable, "-c", program, json.dumps(commands)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert {name: code for name, (code, _, _) in said.items()} == {
        "list": 0, "show": 0, "tune": 5, "elsewhere": 5,
    }, said  # fmt: skip
    assert json.loads(said["list"][1])[0]["name"] == "train"
    assert json.loads(said["show"][1]) == json.loads(a_result().to_json())
    assert "`--out DIR`" in said["tune"][2]
    assert "cannot write .advisor/studies.db" in said["elsewhere"][2]
    assert "`--storage sqlite:///PATH`" in said["elsewhere"][2]
    os.rmdir(commands["elsewhere"][-1])


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Who waits gives up after two seconds."""
    monkeypatch.setenv(LIMIT_VARIABLE, "2")
    yield


def test_a_writer_that_never_ends_is_named_with_exit_code_5(here: Path, hasty: None) -> None:
    of_first_schema(here / "x.db")
    other = sqlite3.connect(here / "x.db")
    other.execute("BEGIN IMMEDIATE")
    (here / "train.py").write_text("import torch\n")
    command = [*ADVISOR, "tune", "train.py", "--study", "train", "--resume", "--storage", URL]
    ran = subprocess.run(command, capture_output=True, text=True)
    other.rollback()
    other.close()
    assert ran.returncode == 5, ran.stderr
    assert "x.db is locked by " in ran.stderr
    if Path("/proc/locks").read_text():  # a container may hide them
        assert f"process {os.getpid()} (" in ran.stderr


def test_a_writer_that_takes_its_time_is_told_about_and_waited_for(here: Path, hasty: None) -> None:
    of_first_schema(here / "x.db")
    other = sqlite3.connect(here / "x.db")
    other.execute("BEGIN IMMEDIATE")
    heard: list[str] = []

    def waits(text: str) -> None:
        heard.append(text)
        other.rollback()

    with Store.open(parse_storage("sqlite:///new.db"), create=True, warn=silent):
        pass
    other.rollback()
    with Store.open(parse_storage(URL), create=False, warn=waits) as store:
        other.execute("BEGIN IMMEDIATE")
        store.mark_status("train", "complete")
    other.close()
    assert heard == ["waiting for x.db: another process is writing to it"]


def test_who_sets_a_database_up_and_never_ends_is_named(here: Path, hasty: None) -> None:
    heard: list[str] = []
    with FileLock(lock_path(here / "x.db")), pytest.raises(EnvironmentProblem) as refused:
        Store.open(parse_storage(URL), create=True, warn=heard.append)
    assert refused.value.message.startswith("x.db is being set up by ")
    assert refused.value.exit_code == 5
    assert len(heard) == 1 and heard[0].startswith("waiting for x.db: ")


def a_trial(number: int) -> Trial:
    return Trial.model_validate({"number": number, "config": {"num_workers": number}})


def test_a_database_that_is_deleted_in_use_is_noticed(here: Path) -> None:
    of_first_schema(here / "x.db")
    store = Store.open(parse_storage(URL), create=False, warn=silent)
    store.claim("train")
    for file in here.glob("x.db*"):
        file.unlink()
    with pytest.raises(EnvironmentProblem, match=r"x\.db was removed or replaced while in use") as gone:
        store.record("train", a_trial(8))
    with pytest.raises(EnvironmentProblem):
        store.close()
    assert (gone.value.exit_code, gone.value.hint) == (5, "move it back, or start another study")
    assert not list(here.glob("x.db*"))


def test_a_database_that_is_replaced_in_use_is_not_written_to(here: Path) -> None:
    of_first_schema(here / "x.db")
    of_first_schema(here / "y.db")
    with Store.open(parse_storage(URL), create=False, warn=silent) as store:
        store.record("train", a_trial(7))
        for ending in ("-wal", "-shm"):
            (here / f"x.db{ending}").unlink(missing_ok=True)
        (here / "y.db").rename(here / "x.db")
        content = (here / "x.db").read_bytes()
        with pytest.raises(EnvironmentProblem, match="was removed or replaced while in use"):
            store.record("train", a_trial(8))
        assert (here / "x.db").read_bytes() == content


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs another user")
@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_a_log_that_another_user_left_is_named(ending: str) -> None:
    python = Path(sys.executable)
    try:
        folder = Path(tempfile.mkdtemp(prefix="advisor-user-", dir="/tmp"))
        folder.chmod(0o755)
        file = of_first_schema(folder / "x.db")
        shutil.chown(folder, 65534, 65534)
        shutil.chown(file, 65534, 65534)
        (folder / f"x.db{ending}").touch(mode=0o600)
        program = "import sys\nfrom advisor.cli import main\nsys.exit(main(['studies', '--storage', 'sqlite:///x.db']))"
        run = [
            "setpriv",
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            str(python),
            "-c",
            program,
        ]
        ran = subprocess.run(run, cwd=folder, capture_output=True, text=True, env={"HOME": "/nonexistent"})
    finally:
        shutil.rmtree(folder)
    if "ModuleNotFoundError" in ran.stderr or "Permission denied" in ran.stderr.splitlines()[-1:]:
        pytest.skip("another user cannot read the project")
    assert ran.returncode == 5, ran.stderr
    assert f"x.db{ending} belongs to another user" in ran.stderr
    assert "it is of user 0" in ran.stderr
    assert "Traceback" not in ran.stderr
