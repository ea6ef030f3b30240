"""Writes below one folder stay invisible to everyone but the trial that makes them.

A mount namespace with an overlay: the folder is read as it is, what is written lands in a scratch folder.
Standard library only, because it works between fork and exec of a trial.
Linux, with or without root (``man 2 unshare``, kernel document ``filesystems/overlayfs``; without root 5.11).
"""

import ctypes
import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000  # linux/sched.h
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18  # linux/mount.h
PROBE_S = 10.0


def probe(directory: Path | None = None, scratch: Path | None = None) -> str | None:
    """Why writes cannot be isolated here, tried in a throwaway process; ``None`` when they can.

    Args:
        directory: The folder to isolate; an empty one by default, which answers for the machine alone.
        scratch: Where writes would land; the system's temporary folder by default. Not every file system
            can hold them (another overlay and NFS cannot).
    """
    if sys.platform != "linux":
        return "writes can be isolated on Linux only"
    import subprocess  # these two would slow down the start of every isolated trial
    import tempfile

    with tempfile.TemporaryDirectory(prefix="advisor-probe-", dir=scratch) as name:
        folder, trial = Path(name), Path(name, "scratch")
        (folder / "empty").mkdir()
        command = [sys.executable, "-P", "-m", "advisor.tuners.supervision.isolation"]
        command += [str(directory or folder / "empty"), str(trial)]
        try:
            tried = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_S, errors="replace")
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        finally:
            remove(trial)
    return None if tried.returncode == 0 else (tried.stderr.strip().splitlines() or ["no answer"])[-1]


def enter(directory: Path, scratch: Path, keep: Sequence[Path] = ()) -> None:
    """From now on this process and its children write below ``directory`` into ``scratch`` only.

    Called in a process of one thread, between fork and exec or in a forked trial; there is no way back.
    What is read is unchanged, and a file is copied when it is first written. Not isolated, and thus as
    before: other folders, links leading out of the folder, and mount points inside it (`nested_mounts`).
    Without root, a folder that was there before cannot be renamed (EXDEV, as between two disks).

    Args:
        directory: The folder to protect; need not be the working directory.
        scratch: An existing or new folder outside ``directory``, for this trial alone.
        keep: Files or folders below ``directory`` that stay shared with everyone; those elsewhere are so
            anyway.

    Raises:
        ValueError: ``scratch`` lies inside ``directory``, or a kept folder contains it.
        OSError: The kernel refuses; which step is in the text. Nothing was changed for other processes,
            but this one must end.
    """
    directory, scratch = directory.resolve(), scratch.resolve()
    shared = [path.resolve(strict=True) for path in keep]
    _check(directory, scratch, shared)
    upper, work = scratch / "upper", scratch / "work"
    upper.mkdir(mode=0o700, parents=True, exist_ok=True)
    work.mkdir(mode=0o700, exist_ok=True)
    present = os.getcwd()
    unprivileged = _unshare()
    _mount(None, Path("/"), None, MS_REC | MS_PRIVATE, None, "make mounts private")
    nested = nested_mounts(directory)
    if unprivileged and nested:  # the kernel hides no mount point from whoever did not mount it
        raise OSError(errno.EINVAL, f"{nested[0]} is a mount point, which only root can carry over")
    inside = sorted({*nested, *(path for path in shared if path.is_relative_to(directory))})
    opened = [(path, os.open(path, os.O_PATH)) for path in inside]  # out of reach by name in a moment
    _overlay(directory, upper, work)
    for path, descriptor in opened:
        _mount(f"/proc/self/fd/{descriptor}", path, None, MS_BIND | MS_REC, None, f"keep {path}")
        os.close(descriptor)
    os.chdir(present)  # the old working directory lies under the overlay


def nested_mounts(directory: Path) -> list[Path]:
    """The outermost mount points below ``directory``, where writes are not isolated.

    With root they stay as they are; without root `enter` refuses a folder that has any.
    """
    directory = directory.resolve()
    with open("/proc/self/mountinfo", "rb") as table:
        points = {Path(os.fsdecode(_unescaped(line.split()[4]))) for line in table}
    below = sorted(point for point in points if directory in point.parents)
    return [point for point in below if not any(parent in below for parent in point.parents)]


def written(scratch: Path) -> list[str]:
    """The files and links that a trial made or changed, relative to the isolated folder, sorted.

    A folder that was there before and was renamed as a whole appears once, as ``name/``.
    """
    return sorted(name for name, gone in _entries(scratch / "upper") if not gone)


def removed(scratch: Path) -> list[str]:
    """What a trial deleted or renamed of the files and folders that were there before, sorted."""
    return sorted(name for name, gone in _entries(scratch / "upper") if gone)


def remove(scratch: Path) -> None:
    """Delete a scratch folder, once its trial has ended; it may be missing.

    The kernel leaves a folder in it that its owner may not enter, which stops a plain ``rmtree``.
    """
    inner = scratch / "work" / "work"
    if inner.is_dir():
        inner.chmod(0o700)
    if scratch.is_dir():
        shutil.rmtree(scratch)


def _check(directory: Path, scratch: Path, shared: Sequence[Path]) -> None:
    if not directory.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "no folder to isolate", str(directory))
    if scratch.is_relative_to(directory):
        raise ValueError(f"the scratch folder {scratch} must lie outside {directory}")
    for path in shared:
        if directory.is_relative_to(path):
            raise ValueError(f"keeping {path} would leave nothing of {directory} isolated")


def _unshare() -> bool:
    """Whether it took a user namespace, because the process may not mount as it is."""
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) == 0:
        return False
    _demand("unshare a user namespace", libc.unshare(CLONE_NEWUSER | CLONE_NEWNS))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path("/proc/self", name).write_text(text)
    return True


def _overlay(directory: Path, upper: Path, work: Path) -> None:
    folders = {"lowerdir": directory, "upperdir": upper, "workdir": work}
    opened = {name: os.open(path, os.O_PATH | os.O_DIRECTORY) for name, path in folders.items()}
    options = [f"{name}=/proc/self/fd/{opened[name]}" for name in opened]  # a path may hold "," or ":"
    whole_machine = Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
    options.append("redirect_dir=on" if whole_machine else "userxattr")  # the first needs the machine's root
    _mount("overlay", directory, "overlay", 0, ",".join(options), f"mount an overlay on {directory}")
    for descriptor in opened.values():
        os.close(descriptor)


def _mount(
    source: str | None, target: Path, kind: str | None, flags: int, data: str | None, what: str
) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [None if text is None else os.fsencode(text) for text in (source, str(target), kind, data)]
    at, on, of, with_data = arguments
    _demand(what, libc.mount(at, on, of, ctypes.c_ulong(flags), with_data))


def _demand(what: str, result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _unescaped(field: bytes) -> bytes:
    for character in b" \t\n\\":  # proc(5): written as three octal digits, the backslash last
        field = field.replace(b"\\%03o" % character, bytes([character]))
    return field


def _entries(upper: Path) -> Iterator[tuple[str, bool]]:
    """Relative name of what lies in the upper folder, and whether it only says that something is gone."""
    for folder, names, files in os.walk(upper):
        for name in files:
            path = Path(folder, name)
            seen = path.lstat()
            gone = stat.S_ISCHR(seen.st_mode) and seen.st_rdev == 0  # overlayfs: a "whiteout"
            yield str(path.relative_to(upper)), gone
        for name in names:
            path = Path(folder, name)
            if path.is_symlink():
                yield str(path.relative_to(upper)), False
            elif sys.platform == "linux" and "trusted.overlay.redirect" in os.listxattr(path):
                yield f"{path.relative_to(upper)}/", False


def _try(directory: Path, scratch: Path) -> str | None:
    """What goes wrong when a file is written into ``directory`` in isolation."""
    mark = f"advisor-probe-{os.getpid()}"
    try:
        enter(directory, scratch)
        Path(directory, mark).write_text(mark)
    except (OSError, ValueError) as error:
        return str(error)
    return None if mark in written(scratch) else "the overlay did not take what was written"


if __name__ == "__main__":
    sys.exit(_try(Path(sys.argv[1]), Path(sys.argv[2])))
