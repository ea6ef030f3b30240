"""A user's file replaced as a whole or not at all, with the old one kept beside it until it is taken back.

Beside ``train.py`` lies ``train.py.orig``, byte for byte what it was, made before the file is replaced:
nothing is lost wherever this is cut off. Its patch is what the file must still be to be taken back.
"""

import errno
import os
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from advisor.base.errors import EnvironmentProblem, UsageError, clean
from advisor.base.fault_points import hit

BACKUP = ".orig"
GIT_S = 5.0


def backup_of(file: Path) -> Path:
    """Where the file as it was lies."""
    return file.with_name(file.name + BACKUP)


def is_written(file: Path, patched: Callable[[bytes], bytes]) -> bool:
    """Whether a file is the patch of what lies beside it.

    Args:
        file: A real path.
        patched: What a patch makes of a content.

    Raises:
        UsageError: One of them is no regular file.
        EnvironmentProblem: One of them cannot be read.
    """
    if not os.path.lexists(backup_of(file)):
        return False
    before, present = _read(backup_of(file)), _read(file)
    return present != before and present == patched(before)


def write_patch(file: Path, before: bytes, after: bytes) -> Path:
    """Replace a file; the old one is kept beside it.

    Args:
        file: A real path.
        before: What it is expected to hold.
        after: What it is to hold.

    Returns:
        The backup.

    Raises:
        UsageError: It holds something else, has another name, or there is something in place of the backup.
        EnvironmentProblem: It cannot be written.
    """
    name, backup = clean(file.name), backup_of(file)
    with _told(name):
        status = _writable(file, name)
        if not os.path.lexists(backup):
            _create(backup, before, status)
        elif _read(backup) != before:  # the same is there after an attempt that was cut off
            raise UsageError(
                f"{clean(backup.name)} exists: nothing written",
                hint="move it away, or take back an earlier patch with `advisor apply RESULT --revert`",
                code="backup_exists",
            )
        try:
            _replace(file, before, after, status)
        except BaseException:
            backup.unlink(missing_ok=True)
            raise
    return backup


def revert(file: Path, patched: Callable[[bytes], bytes]) -> bool:
    """Put a file back as it was before it was patched.

    Args:
        file: A real path.
        patched: What the patch makes of a content.

    Returns:
        Whether it had been replaced at all; the backup of an unfinished patch is removed either way.

    Raises:
        UsageError: There is no patch, or the file was changed since.
        EnvironmentProblem: It cannot be written.
    """
    name, backup = clean(file.name), backup_of(file)
    if not os.path.lexists(backup):
        raise UsageError(f"{name} was not patched: there is no {clean(backup.name)}", code="no_backup")
    original, present = _read(backup), _read(file)
    after = patched(original)
    if after == original or present not in (after, original):
        raise UsageError(
            f"{name} was changed after it was patched: nothing written",
            hint=f"the file as it was before lies in {clean(backup.name)}",
            code="target_changed",
        )
    with _told(name):
        if present == after:
            _replace(file, present, original, _writable(file, name))
        backup.unlink()
        _sync(file.parent)
    return present == after


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
    """A new file that is whole as soon as it is there."""
    temporary = _temporary(file, content, status)
    try:
        hit("backup.rename.before")
        temporary.replace(file)
        hit("backup.rename.after")
    finally:
        temporary.unlink(missing_ok=True)
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
