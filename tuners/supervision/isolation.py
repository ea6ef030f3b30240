"""What a trial writes is seen by that trial alone, wherever it writes.

A mount namespace in which every file system that the program may write lies under an overlay: it is read as
it is, and what is written lands in a scratch folder. Sockets, devices and the network are as before; named
pipes lead to nobody outside.
Standard library only, because it works between fork and exec of a trial.
Linux, with or without root (``man 2 unshare``, kernel document ``filesystems/overlayfs``; without root 5.11).
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from advisor.tuners.supervision.mounts import holds_foreign, listening, read_mounts, writable_folders
from advisor.tuners.supervision.overlays import (
    MS_NODEV,
    MS_NOSUID,
    ROOT,
    demand,
    holds_layers,
    layers_for,
    made,
    mount_on,
    opened_path,
    overlay,
    prepare,
)

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000  # linux/sched.h
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18  # linux/mount.h
PROBE_S = 10.0
LAYERS = "layers"  # in the scratch folder; out of sight within a trial
MOUNTED_BELOW = "something is mounted below it, which only root can carry over"
FOREIGN = "something in it is of another user or group, which only root can copy"
PROC = Path("/proc")


@dataclass(frozen=True)
class Coverage:
    """What of the files that this user may write can be isolated.

    Attributes:
        roots: Folders with an overlay each, parents before children.
        left: Folders that may be written and are not isolated, with the reason.
        in_memory: What is written lands in memory: the file system of the scratch folder cannot hold it.
    """

    roots: tuple[str, ...]
    left: tuple[tuple[str, str], ...] = ()
    in_memory: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether nothing that is written anywhere is left out."""
        return str(ROOT) in self.roots and not self.left

    def covers(self, path: Path) -> bool:
        """Whether what is written at an absolute path is isolated."""
        left = {Path(folder) for folder, _ in self.left}
        roots = set(map(Path, self.roots))
        return next((folder in roots for folder in (path, *path.parents) if folder in left | roots), False)


@dataclass(frozen=True)
class Isolation:
    """Where what one trial writes is kept, for all of its processes.

    Attributes:
        roots: Folders with an overlay each.
        scratch: Of this trial alone; takes what is written.
        keep: Files and folders that stay shared with everyone.
        in_memory: As in ``Coverage``.
    """

    roots: tuple[str, ...]
    scratch: str
    keep: tuple[str, ...] = ()
    in_memory: bool = False

    @property
    def options(self) -> list[str]:
        """Those of the supervisor."""
        named = [("--overlay", self.roots), ("--scratch", (self.scratch,)), ("--keep", self.keep)]
        words = [word for name, values in named for value in values for word in (name, value)]
        return [*words, "--in-memory"] if self.in_memory else words

    def enter(self) -> None:
        """As ``enter``, for this trial."""
        roots, keep = [*map(Path, self.roots)], [*map(Path, self.keep)]
        enter(roots, Path(self.scratch), keep, in_memory=self.in_memory)


def probe(directory: Path, scratch: Path | None = None) -> Coverage | str:
    """What can be isolated here, tried in a throwaway process, or why nothing can.

    Args:
        directory: In which the program works; isolated if it may be written, however deep it lies.
        scratch: Where writes would land; the system's temporary folder by default. Where its file system
            cannot hold them (another overlay, NFS) they land in memory.
    """
    if sys.platform != "linux":
        return "writes can be isolated on Linux only"
    import subprocess  # these two would slow down the start of every isolated trial
    import tempfile

    with tempfile.TemporaryDirectory(prefix="advisor-probe-", dir=scratch) as name:
        trial, mark = Path(name, "scratch"), f"advisor-probe-{os.getpid()}"
        command = [sys.executable, "-P", "-m", "advisor.tuners.supervision.isolation"]
        command += [str(trial), str(directory.resolve()), mark]
        try:
            tried = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_S, errors="replace")
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        finally:
            remove(trial)
    if tried.returncode != 0:
        return (tried.stderr.strip().splitlines() or ["no answer"])[-1]
    answer = json.loads(tried.stdout)
    left = tuple((path, why) for path, why in answer["left"])
    coverage = Coverage(tuple(answer["roots"]), left, answer["in_memory"])
    if (directory / mark).exists():
        (directory / mark).unlink()
        return "the overlay did not take what was written"
    return coverage


def enter(
    roots: Sequence[Path], scratch: Path, keep: Sequence[Path] = (), *, in_memory: bool = False
) -> None:
    """From now on this process and its children write below ``roots`` into ``scratch`` only.

    Processes that name the same scratch folder, such as the ranks of one trial, see what each other writes.
    Called in a process of one thread, between fork and exec or in a forked trial; there is no way back. What
    is read is unchanged, and a file is copied when it is first written. Without root, a folder that was there
    before cannot be renamed, nor anything moved from one root to another (EXDEV, as between two disks).

    Args:
        roots: Folders to protect, as ``Coverage`` names them; one that is gone since needs no protection.
        scratch: An existing or new folder, for this trial alone.
        keep: Files or folders that stay shared with everyone.
        in_memory: As in ``Coverage``; of the memory that is free, half may be taken.

    Raises:
        OSError: The kernel refuses; which step is in the text. Nothing was changed for other processes,
            but this one must end.
    """
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = scratch.resolve()
    shared = [path.resolve(strict=True) for path in keep]
    present = os.getcwd()
    with open(scratch / "namespace", "a+") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        first.seek(0)
        if not _join(first.read()):
            _unshare()
            prepare(scratch / LAYERS, in_memory=in_memory)
            _cover([path.resolve() for path in roots], scratch / LAYERS, shared)
            first.truncate(0)
            first.write(" ".join([str(os.getpid()), *_namespaces(os.getpid())]))
    os.chdir(present)  # the old working directory lies under an overlay


def remove(scratch: Path) -> None:
    """Delete a scratch folder, once its trial has ended; it may be missing.

    The kernel and programs leave folders in it that their owner may not enter, which stop a plain ``rmtree``.
    """
    if not scratch.is_dir():
        return
    for folder, names, _ in os.walk(scratch):
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink() and path.stat().st_mode & stat.S_IRWXU != stat.S_IRWXU:
                path.chmod(stat.S_IRWXU)
    shutil.rmtree(scratch)


def _join(told: str) -> bool:
    """Enter the namespaces of the process that is told, if it still lives in them."""
    pid, *names = told.split() or [""]
    if not pid or names != _namespaces(int(pid)):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    own = _namespaces(os.getpid())
    for name, theirs, mine in zip(("user", "mnt"), names, own, strict=True):
        if theirs != mine:
            # the mount namespace of a user namespace can be opened from within that one alone
            descriptor = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
            demand(f"join the {name} namespace of the trial", libc.setns(descriptor, 0))
            os.close(descriptor)
    return True


def _namespaces(pid: int) -> list[str]:
    """Names of the user and the mount namespace of a process; empty if it has ended."""
    with contextlib.suppress(OSError):
        return [os.readlink(f"/proc/{pid}/ns/{name}") for name in ("user", "mnt")]
    return []


def _unshare() -> bool:
    """Whether it took a user namespace, because the process may not mount as it is."""
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    unprivileged: bool = libc.unshare(CLONE_NEWNS) != 0
    if unprivileged:
        demand("unshare a user namespace", libc.unshare(CLONE_NEWUSER | CLONE_NEWNS))
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            Path("/proc/self", name).write_text(text)
    mount_on(None, ROOT, None, MS_REC | MS_PRIVATE, None, "make mounts private")
    return unprivileged


def _cover(
    roots: Sequence[Path], layers: Path, keep: Sequence[Path], failed: dict[Path, str] | None = None
) -> None:
    """Put an overlay over each root, and what is mounted below one back into its place.

    Args:
        roots: In any order.
        layers: Where writes land, prepared.
        keep: Put back into its place as well.
        failed: Takes roots that refuse, with the reason; without it the first one raises.
    """
    mounts = {mount.point: mount for mount in read_mounts()}
    # parents first, and what is opened is named by way of /proc
    places = sorted({*roots, *mounts}, key=lambda path: (path != ROOT, path != PROC, path.parts))
    sockets = listening()  # an overlay shows them, but connects to nobody
    covered: set[Path] = set()
    seen: set[Path] = set()
    with contextlib.ExitStack() as stack:  # everything is out of reach by name in a moment
        opened = {path: stack.enter_context(opened_path(path)) for path in keep}
        for path in (*places, *sockets):
            with contextlib.suppress(FileNotFoundError):  # another program took it away since it was listed
                opened[path] = opened.get(path) or stack.enter_context(opened_path(path))
        prepared = layers_for(layers, {path: opened[path] for path in roots if path in opened}, mounts, stack)
        for path in filter(opened.__contains__, places):
            above = next((parent for parent in path.parents if parent in seen), path)
            seen.add(path)
            if path in roots:
                try:
                    overlay(path, opened[path], prepared[path])
                    covered.add(path)
                    continue
                except OSError as error:
                    if failed is None:
                        raise
                    failed[path] = str(error.strerror)
            if above in covered:
                _put_back(path, opened[path])
        for path in filter(opened.__contains__, (*keep, *sockets)):
            if covered.intersection((path, *path.parents)):
                gone = contextlib.suppress(FileNotFoundError) if path in sockets else contextlib.nullcontext()
                with gone:  # another program took it away meanwhile: nobody can connect to it any more
                    _put_back(path, opened[path])
    mount_on("none", layers, "tmpfs", MS_NOSUID | MS_NODEV, "size=4k,mode=700", "hide the layers")


def _put_back(path: Path, descriptor: int) -> None:
    """Mount what is open, with everything mounted below it, where it was."""
    source = f"/proc/self/fd/{descriptor}"
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.fchdir(descriptor)
        source = "."
    mount_on(source, path, None, MS_BIND | MS_REC, None, f"keep {path}")


def _coverage(unprivileged: bool, named: Sequence[Path]) -> tuple[list[Path], dict[Path, str]]:
    """Which folders to isolate, and which cannot be."""
    mounts = read_mounts()
    if not unprivileged:
        return [mount.point for mount in mounts if mount.holds_files and mount.point.is_dir()], {}
    roots, left = [], {}
    for path, is_split in writable_folders(mounts, named):
        if is_split:
            left[path] = MOUNTED_BELOW
        elif holds_foreign(path, named):
            left[path] = FOREIGN
        else:
            roots.append(path)
    return roots, left


def tried(scratch: Path, directory: Path, mark: str) -> Coverage:
    """Isolate this process as far as it goes, and write a file into the directory."""
    import tempfile

    unprivileged = _unshare()
    named = [directory, Path.home(), Path(tempfile.gettempdir()), scratch.parent]
    roots, left = _coverage(unprivileged, [path.resolve() for path in named])
    in_memory = not holds_layers(made(scratch))
    failed: dict[Path, str] = {}
    prepare(scratch / LAYERS, in_memory=in_memory)
    _cover(roots, scratch / LAYERS, (), failed)
    if roots and len(failed) == len(roots):
        raise OSError(errno.EINVAL, failed[roots[0]])
    coverage = Coverage(
        tuple(str(path) for path in roots if path not in failed),
        tuple((str(path), why) for path, why in (left | failed).items()),
        in_memory,
    )
    if coverage.covers(directory):
        (directory / mark).write_text(mark)
    return coverage


if __name__ == "__main__":
    try:
        answer = tried(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    except OSError as error:
        sys.exit(error.strerror)
    print(json.dumps(asdict(answer)))
