"""Temporary folders are removed by their run, or by the next one if it was killed."""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from advisor.stages.scratch import PREFIX, make_scratch

RUN = """
import sys
from contextlib import ExitStack
from advisor.stages.scratch import make_scratch
with ExitStack() as stack:
    folder = make_scratch(stack)
    (folder / "upper").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def a_run() -> tuple["subprocess.Popen[str]", Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_run_removes_its_own_folder(temporary: Path) -> None:
    with ExitStack() as stack:
        folder = make_scratch(stack)
        assert folder.parent == temporary and folder.stat().st_mode & 0o077 == 0
    assert list(temporary.iterdir()) == []


def test_what_a_killed_run_left_is_removed_and_what_a_living_one_has_stays(temporary: Path) -> None:
    (killed, left), (living, used) = a_run(), a_run()
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    with ExitStack() as stack:
        own = make_scratch(stack)
        assert set(temporary.iterdir()) == {own, used}
    assert not left.exists()
    living.communicate("")
    assert list(temporary.iterdir()) == []


def test_a_link_or_a_file_of_that_name_is_let_alone(temporary: Path) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (temporary / f"{PREFIX}link").symlink_to(elsewhere)
    (temporary / f"{PREFIX}file").write_text("")
    (temporary / f"{PREFIX}shared").mkdir(mode=0o777)
    (temporary / f"{PREFIX}shared").chmod(0o777)
    before = set(temporary.iterdir())
    with ExitStack() as stack:
        make_scratch(stack)
    assert set(temporary.iterdir()) == before
