"""Disks that are full or fail: an acknowledged trial stays, the rest is told with the next step."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import fault_oracle
import pytest
from toy import Toy

pytestmark = pytest.mark.faults

STRACE = shutil.which("strace")
CAN_MOUNT = shutil.which("unshare") is not None and (
    subprocess.run(
        ["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    ).returncode
    == 0
)
needs_mounts = pytest.mark.skipif(
    not CAN_MOUNT, reason="this kernel lets nobody mount in a namespace of theirs"
)
needs_strace = pytest.mark.skipif(STRACE is None, reason="strace is not installed")


@pytest.fixture
def toy(tmp_path: Path, no_process_remains: str) -> Toy:
    return Toy(tmp_path / "toy", no_process_remains)


def within(size: str, folder: str) -> list[str]:
    """A command that runs another with a small file system as ``folder``; its files are copied at the end."""
    script = (
        f"mount -t tmpfs -o size={size},mode=700 none {folder} && cp -a {folder}-before/. {folder}/;"
        f' "$@"; code=$?; mkdir -p {folder}-after; cp -a {folder}/. {folder}-after/; exit $code'
    )
    return ["unshare", "-Urm", "sh", "-c", script, "sh"]


def small_folder(toy: Toy, name: str) -> None:
    """A folder to mount over, and what it holds at first."""
    (toy.folder / name).mkdir(mode=0o700, exist_ok=True)
    (toy.folder / f"{name}-before").mkdir(mode=0o700, exist_ok=True)


def keep_what_was_left(toy: Toy, name: str) -> None:
    """Put what the small file system held in place of the folder."""
    shutil.rmtree(toy.folder / name)
    shutil.rmtree(toy.folder / f"{name}-before")
    (toy.folder / f"{name}-after").rename(toy.folder / name)


@needs_mounts
@pytest.mark.parametrize("size", ["250k", "330k"])
def test_a_study_whose_disk_fills_up_is_resumed_with_all_that_was_acknowledged(size: str, toy: Toy) -> None:
    small_folder(toy, ".advisor")
    code, said = toy.run(wrap=within(size, ".advisor"))
    keep_what_was_left(toy, ".advisor")
    assert code == 5, said
    assert "space" in said
    fault_oracle.check(toy.folder, mark=toy.mark, code=code, codes=(5,))
    assert len(toy.resume().configs) == 4


@needs_mounts
def test_a_disk_too_small_for_a_study_is_told_and_nothing_half_made_stays(toy: Toy) -> None:
    small_folder(toy, ".advisor")
    code, said = toy.run(wrap=within("16k", ".advisor"))
    keep_what_was_left(toy, ".advisor")
    assert code == 5, said
    assert not (toy.folder / ".advisor" / "studies.db").exists()
    assert len(toy.resume().configs) == 4


@needs_mounts
def test_a_report_that_cannot_be_written_leaves_the_old_one(toy: Toy) -> None:
    code, said = toy.run()
    assert code == 0, said
    report = toy.folder / "advisor-report"
    before = {file.name: file.read_bytes() for file in report.iterdir()}
    report.rename(toy.folder / "advisor-report-before")
    report.mkdir()
    kilobytes = sum(-(-len(content) // 4096) * 4 for content in before.values()) + 8
    code, said = toy.run("--resume", wrap=within(f"{kilobytes}k", "advisor-report"))
    keep_what_was_left(toy, "advisor-report")
    assert code == 5, said
    assert {file.name: file.read_bytes() for file in report.iterdir()} == before
    fault_oracle.check(toy.folder, mark=toy.mark, code=code)


@needs_strace
@pytest.mark.parametrize("call", ["fsync,fdatasync:error=EIO", "pwrite64:error=ENOSPC"])
@pytest.mark.parametrize("when", [3, 25, 45])  # of some 50 and 390 calls of a whole run
def test_a_call_that_fails_on_the_disk_is_told_and_acknowledges_nothing(
    call: str, when: int, toy: Toy
) -> None:
    assert STRACE is not None  # else it is skipped
    command = [STRACE, "-f", "-qq", "-o", os.devnull, "-e", f"trace={call.partition(':')[0]}"]
    code, said = toy.run(wrap=[*command, "-e", f"inject={call}:when={when}+"])
    assert code in (3, 4, 5), said
    assert "Traceback" not in said and code != -signal.SIGKILL
    fault_oracle.check(toy.folder, mark=toy.mark, code=code, scratch=True)
    assert len(toy.resume().configs) == 4
