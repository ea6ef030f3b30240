"""A user's file is replaced as a whole, kept beside itself, put back only while it is what was written."""

import os
import stat
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from advisor.base.errors import EnvironmentProblem, UsageError
from advisor.patching import backup

OLD, NEW = b"old = 1\r\n", b"new = 1\r\n"


def patched(content: bytes) -> bytes:
    return content.replace(b"old", b"new")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(OLD)
    path.chmod(0o751)
    return path


def names(file: Path) -> list[str]:
    return sorted(path.name for path in file.parent.iterdir())


def test_a_file_is_replaced_and_put_back_with_its_mode(file: Path) -> None:
    kept = backup.write_patch(file, OLD, NEW)
    assert (file.read_bytes(), kept.read_bytes()) == (NEW, OLD)
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert names(file) == ["train.py", "train.py.orig"]
    assert backup.is_written(file, patched)
    assert backup.revert(file, patched)
    assert (file.read_bytes(), names(file)) == (OLD, ["train.py"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o751


def test_what_was_changed_after_the_patch_is_not_put_back(file: Path) -> None:
    backup.write_patch(file, OLD, NEW)
    file.write_bytes(NEW + b"mine = 1\n")
    with pytest.raises(UsageError, match="was changed after it was patched: nothing written"):
        backup.revert(file, patched)
    assert file.read_bytes() == NEW + b"mine = 1\n"
    assert backup.backup_of(file).read_bytes() == OLD


def test_a_second_patch_does_not_bury_the_first_backup(file: Path) -> None:
    backup.write_patch(file, OLD, NEW)
    with pytest.raises(UsageError, match=r"train.py.orig exists: nothing written") as raised:
        backup.write_patch(file, NEW, b"newest = 1\n")
    assert "--revert" in (raised.value.hint or "")
    assert (file.read_bytes(), backup.backup_of(file).read_bytes()) == (NEW, OLD)


def test_without_a_patch_there_is_nothing_to_put_back(file: Path) -> None:
    with pytest.raises(UsageError, match="was not patched"):
        backup.revert(file, patched)


def test_a_changed_backup_is_not_put_back(file: Path) -> None:
    backup.write_patch(file, OLD, NEW)
    backup.backup_of(file).write_bytes(b"something else")
    assert not backup.is_written(file, patched)
    with pytest.raises(UsageError, match="was changed after it was patched: nothing written"):
        backup.revert(file, patched)
    assert file.read_bytes() == NEW


def test_a_file_that_changed_meanwhile_is_left_alone(file: Path) -> None:
    file.write_bytes(b"changed\n")
    with pytest.raises(UsageError, match="was changed meanwhile: nothing written"):
        backup.write_patch(file, OLD, NEW)
    assert (file.read_bytes(), names(file)) == (b"changed\n", ["train.py"])


def test_what_is_cut_off_before_the_file_is_replaced_can_be_patched_again(file: Path) -> None:
    backup.backup_of(file).write_bytes(OLD)  # as a killed process leaves it
    assert not backup.is_written(file, patched)
    backup.write_patch(file, OLD, NEW)
    assert (file.read_bytes(), backup.backup_of(file).read_bytes()) == (NEW, OLD)


def test_what_an_unfinished_patch_left_is_removed_by_revert(file: Path) -> None:
    backup.backup_of(file).write_bytes(OLD)
    assert not backup.revert(file, patched)
    assert (file.read_bytes(), names(file)) == (OLD, ["train.py"])


def test_a_full_disk_leaves_the_file_and_nothing_else(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EnvironmentProblem, match=r"cannot write to train.py") as raised:
        backup.write_patch(file, OLD, NEW)
    assert raised.value.cause == "no space left on device"
    assert (file.read_bytes(), names(file)) == (OLD, ["train.py"])


def test_a_read_only_file_is_not_replaced(file: Path) -> None:
    file.chmod(0o444)
    with pytest.raises(EnvironmentProblem, match=r"cannot write to train\.py") as raised:
        backup.write_patch(file, OLD, NEW)
    assert raised.value.hint == "`chmod u+w train.py`"
    assert (file.read_bytes(), names(file)) == (OLD, ["train.py"])


def test_a_link_is_never_followed(file: Path) -> None:
    link = file.with_name("link.py")
    link.symlink_to(file)
    with pytest.raises(UsageError, match="link"):
        backup.write_patch(link, OLD, NEW)
    assert file.read_bytes() == OLD


def test_a_file_with_two_names_is_not_parted(file: Path) -> None:
    os.link(file, file.with_name("other.py"))
    with pytest.raises(UsageError, match="has another name"):
        backup.write_patch(file, OLD, NEW)


def test_a_file_of_the_users_in_that_place_is_kept(file: Path) -> None:
    backup.backup_of(file).write_bytes(b"mine")
    with pytest.raises(UsageError, match="exists: nothing written") as raised:
        backup.write_patch(file, OLD, NEW)
    assert "move it away" in (raised.value.hint or "")
    with pytest.raises(UsageError, match="nothing written"):
        backup.revert(file, patched)
    assert (file.read_bytes(), backup.backup_of(file).read_bytes()) == (OLD, b"mine")


def test_a_link_in_that_place_is_not_written_through(file: Path) -> None:
    elsewhere = file.with_name("elsewhere")
    backup.backup_of(file).symlink_to(elsewhere)
    with pytest.raises(UsageError, match="link"):
        backup.write_patch(file, OLD, NEW)
    assert not elsewhere.exists()


def test_git_tells_of_changes_that_are_not_committed(file: Path) -> None:
    def git(*words: str) -> None:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        subprocess.run(command, cwd=file.parent, check=True, capture_output=True)

    assert not backup.has_uncommitted_changes(file)
    git("init", "-q", ".")
    git("add", "train.py")
    git("commit", "-q", "-m", "one")
    assert not backup.has_uncommitted_changes(file)
    file.write_bytes(NEW)
    assert backup.has_uncommitted_changes(file)
