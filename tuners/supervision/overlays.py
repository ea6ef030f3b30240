"""Overlays and the folders of their layers: what is written lands there, or in memory.

Standard library only, because it works between fork and exec of a trial.
Linux (``man 2 mount``, kernel document ``filesystems/overlayfs``).
"""

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from advisor.tuners.supervision.mounts import Mount

MS_NOSUID, MS_NODEV = 2, 4  # linux/mount.h
ROOT = Path("/")


@dataclass(frozen=True)
class Layers:
    """Open folders: what is written, and what the kernel keeps beside it."""

    upper: int
    work: int


def layers_for(
    folder: Path, roots: Mapping[Path, int], mounts: Mapping[Path, Mount], stack: contextlib.ExitStack
) -> dict[Path, Layers]:
    """Where what is written below each root lands: in the folder, or in memory what is in memory anyway.

    Args:
        folder: Prepared.
        roots: Open descriptors of them.
        mounts: By their points.
        stack: Closes what is opened.
    """
    device, found = folder.stat().st_dev, {}
    for number, (root, descriptor) in enumerate(roots.items()):
        mount = next(mounts[path] for path in (root, *root.parents) if path in mounts)
        own = made(folder / str(number))
        if mount.kind == "tmpfs" and os.fstat(descriptor).st_dev != device:
            free = os.statvfs(f"/proc/self/fd/{descriptor}")
            _use_memory(own, free.f_bavail * free.f_frsize)
        found[root] = stack.enter_context(_prepared(own, descriptor))
    return found


@contextlib.contextmanager
def _prepared(folder: Path, below: int) -> Iterator[Layers]:
    upper, work = made(folder / "upper"), made(folder / "work")
    status = os.fstat(below)
    try:
        os.chown(upper, status.st_uid, status.st_gid)
    except (
        OSError
    ) as error:  # another user's folder that all may write; in a namespace that user has no number
        if error.errno not in (errno.EPERM, errno.EINVAL):
            raise
    upper.chmod(stat.S_IMODE(status.st_mode))  # the root is shown with the rights of this folder
    with opened_path(upper) as above, opened_path(work) as beside:
        yield Layers(above, beside)


def prepare(layers: Path, *, in_memory: bool) -> None:
    """Make the folder in which writes land."""
    made(layers)
    if in_memory:
        _use_memory(layers, _free_memory() // 2)


def _use_memory(folder: Path, size: int) -> None:
    mount_on("none", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},mode=700", "use memory")


def made(folder: Path) -> Path:
    """A folder of one's own, made where it is not there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def holds_layers(folder: Path) -> bool:
    """Whether its file system can take what an overlay writes."""
    place = made(folder / "below")
    with opened_path(place) as below, _prepared(folder, below) as layers, contextlib.suppress(OSError):
        overlay(place, below, layers)
        demand("take it away", ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(place), 0))
        return True
    return False


def overlay(path: Path, below: int, layers: Layers) -> None:
    """Mount an overlay over a folder that is open as ``below``, and enter it if it is the root."""
    folders = {"lowerdir": below, "upperdir": layers.upper, "workdir": layers.work}
    options = [f"{name}=/proc/self/fd/{folders[name]}" for name in folders]  # a path may hold "," or ":"
    whole_machine = Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
    options.append("redirect_dir=on" if whole_machine else "userxattr")  # the first needs the machine's root
    mount_on("overlay", path, "overlay", 0, ",".join(options), f"mount an overlay on {path}")
    if path == ROOT:
        os.chdir("/..")  # what is mounted on the root, where a plain "/" is what lies below
        os.chroot(".")


@contextlib.contextmanager
def opened_path(path: Path) -> Iterator[int]:
    """A descriptor that names a path also once something is mounted over it."""
    descriptor = os.open(path, os.O_PATH)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _free_memory() -> int:
    """Bytes that programs can get without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024


def mount_on(
    source: str | None, target: Path, kind: str | None, flags: int, data: str | None, what: str
) -> None:
    """``mount(2)``; ``what`` says in an ``OSError`` what it was for."""
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [None if text is None else os.fsencode(text) for text in (source, str(target), kind, data)]
    at, on, of, with_data = arguments
    demand(what, libc.mount(at, on, of, ctypes.c_ulong(flags), with_data))


def demand(what: str, result: int) -> None:
    """Raise the ``OSError`` of a call to libc that did not return 0."""
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
