"""A user's file replaced as a whole or not at all, with the old one kept beside it until it is taken back.

Beside ``train.py`` lie ``train.py.advisor-backup``, byte for byte what it was, and
``train.py.advisor-backup.json``, which tells what was written, so that only that is ever taken back. Both are
there before the file is replaced: wherever this is cut off, nothing is lost.
"""

import errno
import hashlib
import json
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from advisor.base.errors import AdvisorError, EnvironmentProblem, UsageError, clean
from advisor.base.fault_points import hit

BACKUP, RECORD = ".advisor-backup", ".advisor-backup.json"
MAX_RECORD = 10_000  # bytes
GIT_S = 5.0
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP)  # file systems without hard links

State = Literal["none", "written", "changed", "unfinished"]


def backup_of(file: Path) -> Path:
    """Where the file as it was lies."""
    return file.with_name(file.name + BACKUP)


def state_of(file: Path) -> State:
    """What is known of an earlier patch of a file.

    ``written``: the file is what was written. ``changed``: it is something else by now. ``unfinished``: it
    was not replaced in the end. ``none``: there is no earlier patch.

    Raises:
        UsageError: What lies beside it is not ours.
        EnvironmentProblem: It cannot be read.
    """
    backup, record = backup_of(file), _record_of(file)
    if not os.path.lexists(backup) and not os.path.lexists(record):
        return "none"
    if os.path.lexists(backup) and not os.path.lexists(record):
        if _digest(_read(backup)) == _digest(_read(file)):  # cut off between the two
            return "unfinished"
        raise UsageError(f"{clean(backup.name)} was not made by advisor", hint="move it away")
    known = _read_record(record)
    digest = _digest(_read(file))
    if digest == known["original"]:
        return "unfinished"
    return "written" if digest == known["written"] else "changed"


def write_patch(file: Path, before: bytes, after: bytes) -> Path:
    """Replace a file; the old one is kept beside it.

    Args:
        file: A real path.
        before: What it is expected to hold.
        after: What it is to hold.

    Returns:
        The backup.

    Raises:
        UsageError: It holds something else, has another name, or an earlier patch was not taken back.
        EnvironmentProblem: It cannot be written.
    """
    name, backup = clean(file.name), backup_of(file)
    state = state_of(file)
    if state in ("written", "changed"):
        raise UsageError(
            f"{clean(backup.name)} exists: an earlier patch was written to {name}",
            hint=f"`advisor apply RESULT --revert` takes it back; removing {clean(backup.name)} and "
            f"{clean(_record_of(file).name)} keeps it for good",
            code="backup_exists",
        )
    with _told(name):
        status = _writable(file, name)
        _unlink(backup, _record_of(file))
        _create(backup, before, status)
        known = {"file": file.name, "original": _digest(before), "written": _digest(after)}
        _create(_record_of(file), json.dumps(known, indent=2).encode() + b"\n", status)
        try:
            _replace(file, before, after, status)
        except BaseException:
            _unlink(backup, _record_of(file))
            raise
    return backup


def revert(file: Path) -> bool:
    """Put a file back as it was before it was patched.

    Returns:
        Whether it had been replaced at all; what an unfinished patch left is removed either way.

    Raises:
        UsageError: There is no patch, or the file was changed since.
        EnvironmentProblem: It cannot be written.
    """
    name, backup = clean(file.name), backup_of(file)
    state = state_of(file)
    if state == "none":
        raise UsageError(f"{name} was not patched: there is no {clean(backup.name)}", code="no_backup")
    if state == "changed":
        raise UsageError(
            f"{name} was changed after it was patched: nothing written",
            hint=f"the file as it was before lies in {clean(backup.name)}",
            code="target_changed",
        )
    with _told(name):
        if state == "written":
            original = _read(backup)
            if _digest(original) != _read_record(_record_of(file))["original"]:
                raise UsageError(
                    f"{clean(backup.name)} is not what it was: nothing written", code="target_changed"
                )
            _replace(file, _read(file), original, _writable(file, name))
        _unlink(backup, _record_of(file))
        _sync(file.parent)
    return state == "written"


def has_uncommitted_changes(file: Path) -> bool:
    """Whether git knows the file and knows of changes in it; not where there is no git."""
    command = [
        "git",
        "-C",
        str(file.parent),
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        file.name,
    ]
    try:
        told = subprocess.run(
            command, capture_output=True, timeout=GIT_S, check=False, stdin=subprocess.DEVNULL,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return told.returncode == 0 and bool(told.stdout.strip())


def _record_of(file: Path) -> Path:
    return file.with_name(file.name + RECORD)


def _writable(file: Path, name: str) -> os.stat_result:
    """The file's status, if it may be replaced.

    Raises:
        UsageError: Replacing it would part it from another name of the same file.
        EnvironmentProblem: It is read-only, or its folder is.
    """
    status = os.lstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{name} is not a regular file")
    if status.st_nlink > 1:
        raise UsageError(
            f"{name} has another name (a hard link), which would keep the old text: nothing written"
        )
    if not status.st_mode & 0o222 or not os.access(file, os.W_OK):
        raise EnvironmentProblem(
            f"cannot write to {name}", cause="it is read-only", hint=f"`chmod u+w {name}`"
        )
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise EnvironmentProblem(f"cannot write to the folder of {name}", cause="permission denied")
    return status


def _replace(file: Path, before: bytes, after: bytes, status: os.stat_result) -> None:
    """Put ``after`` in place of ``before``; a reader sees the one or the other."""
    temporary = _temporary(file, after, status)
    try:
        if _read(file) != before:
            raise UsageError(
                f"{clean(file.name)} was changed meanwhile: nothing written", code="target_changed"
            )
        hit("patch.rename.before")
        temporary.replace(file)
        hit("patch.rename.after")
    finally:
        temporary.unlink(missing_ok=True)
    _sync(file.parent)


def _create(file: Path, content: bytes, status: os.stat_result) -> None:
    """A new file that is whole as soon as it is there; one that is there already stays."""
    temporary = _temporary(file, content, status)
    hit("backup.rename.before")
    try:
        os.link(temporary, file, follow_symlinks=False)
    except FileExistsError:
        raise UsageError(f"{clean(file.name)} exists: nothing written", hint="move it away") from None
    except OSError as error:
        if error.errno not in NO_LINKS or os.path.lexists(file):
            raise
        temporary.rename(file)
    finally:
        temporary.unlink(missing_ok=True)
    hit("backup.rename.after")
    _sync(file.parent)


def _temporary(file: Path, content: bytes, status: os.stat_result) -> Path:
    """A file beside ``file`` with the mode and owner of the original, safely on the disk."""
    number, name = tempfile.mkstemp(prefix=f".{file.name[:100]}.", suffix=".tmp", dir=file.parent)
    temporary = Path(name)
    try:
        with open(number, "wb") as stream:
            stream.write(content)
            with suppress(PermissionError):  # another owner's, which only root can keep
                os.fchown(stream.fileno(), status.st_uid, status.st_gid)
            os.fchmod(stream.fileno(), stat.S_IMODE(status.st_mode))
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _read(file: Path) -> bytes:
    try:
        number = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(number, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise UsageError(f"{clean(file.name)} is not a regular file: nothing written")
            return stream.read()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UsageError(f"{clean(file.name)} is a symbolic link: nothing written", code="link") from None
        raise _problem(f"cannot read {clean(file.name)}", error) from None


def _read_record(record: Path) -> dict[str, str]:
    try:
        known = json.loads(_read(record)[:MAX_RECORD])
        return {"original": str(known["original"]), "written": str(known["written"])}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        if isinstance(error, AdvisorError):
            raise
        raise UsageError(f"{clean(record.name)} was not made by advisor", hint="move it away") from None


def _unlink(*files: Path) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def _told(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _problem(f"cannot write to {name}", error) from None


def _problem(message: str, error: OSError) -> EnvironmentProblem:
    return EnvironmentProblem(message, cause=clean(os.strerror(error.errno or 0)).lower())


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
