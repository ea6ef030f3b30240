"""What is mounted here, and where below it this user may write.

Standard library only, because it works between fork and exec of a trial.
"""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PSEUDO = frozenset(
    (
        "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs",
        "efivarfs", "fuse.gvfsd-fuse", "fuse.lxcfs", "fuse.portal", "fusectl", "hugetlbfs", "mqueue", "nsfs",
        "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs",
    )
)  # fmt: skip
"""Kinds of file systems that hold no files of anybody (``Documentation/filesystems``)."""
KERNELS = (Path("/dev"), Path("/proc"), Path("/sys"))
SHARED_MEMORY = Path("/dev/shm")
LOOKED = 2000  # entries: some 10 ms
DEPTH = 3
"""Folders below a mount point that are searched for one that may be written; deeper only on named paths."""


@dataclass(frozen=True)
class Mount:
    """One mount that can be reached by its path.

    Attributes:
        point: Where it is.
        kind: Of file system: ``ext4``.
        read_only: Nobody can write through it.
    """

    point: Path
    kind: str
    read_only: bool

    @property
    def holds_files(self) -> bool:
        """Whether somebody's files may be written there: no device, no window into the kernel."""
        kernels = any(self.point.is_relative_to(path) for path in KERNELS) and self.point != SHARED_MEMORY
        return not (self.read_only or kernels or self.kind in PSEUDO)


def read_mounts() -> list[Mount]:
    """The mounts that paths of this process reach (``man 5 proc_pid_mountinfo``), parents before children."""
    with open("/proc/self/mountinfo", "rb") as table:
        lines = [line.split() for line in table]
    found: dict[Path, Mount] = {}
    for words in lines:
        point = Path(os.fsdecode(_unescaped(words[4])))
        if _mount_id(point) == words[0]:  # neither hidden by another one nor out of this user's reach
            after = words.index(b"-")
            options = {*words[5].split(b","), *words[after + 3].split(b",")}
            found[point] = Mount(point, words[after + 1].decode(), b"ro" in options)
    return sorted(found.values(), key=lambda mount: mount.point.parts)


def writable_folders(mounts: Sequence[Mount], named: Iterable[Path]) -> list[tuple[Path, bool]]:
    """The uppermost folders that this user may write, and whether something is mounted below one.

    What lies in such a folder belongs to it, unless something is mounted below: then its folders follow, too.

    Args:
        mounts: To be searched, to a depth of three folders.
        named: Folders that are found at any depth.
    """
    search = _Search(
        starts=[mount.point for mount in mounts if mount.holds_files],
        points={mount.point for mount in mounts},
        above={parent for point in _mount_points() for parent in point.parents},
        named={parent for path in named for parent in (path, *path.parents)},
    )
    return [found for start in search.starts for found in search.below(start, DEPTH)]


@dataclass(frozen=True)
class _Search:
    starts: list[Path]
    points: set[Path]
    above: set[Path]
    named: set[Path]

    def below(self, folder: Path, depth: int) -> Iterator[tuple[Path, bool]]:
        is_split = folder in self.above
        if os.access(folder, os.W_OK | os.X_OK):
            yield folder, is_split
            if not is_split:
                return
        for path in self._folders(folder):
            if path not in self.points and (depth > 0 or path in self.named or is_split):
                yield from self.below(path, depth - 1)

    def _folders(self, folder: Path) -> list[Path]:
        try:
            with os.scandir(folder) as entries:
                return sorted(Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:  # it cannot be listed; what is named in it can be reached all the same
            return sorted(path for path in self.named if path.parent == folder and path.is_dir())


def holds_foreign(root: Path, named: Iterable[Path]) -> bool:
    """Whether below a folder lies what this user may write and has another owner or group than theirs.

    A namespace of theirs has no number for those, so an overlay in it cannot copy such a file (EOVERFLOW).
    Looked at are the named paths, and the first entries in order of depth, those below named folders first.
    """
    below = [path for path in named if root in path.parents]
    if any(_is_foreign(path) for path in below):
        return True
    looked, folders = 0, [*below, root]
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:  # it may not be listed
            for entry in entries:
                looked += 1
                path = Path(entry)
                if _is_foreign(path):
                    return True
                if looked > LOOKED:
                    return False
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
    return False


def _is_foreign(path: Path) -> bool:
    status, own = path.lstat(), (os.geteuid(), os.getegid())
    if (status.st_uid, status.st_gid) == own or stat.S_ISLNK(status.st_mode):
        return False
    if stat.S_ISDIR(status.st_mode):  # a sticky one, such as /tmp/.X11-unix, holds what nobody shares
        return not status.st_mode & stat.S_ISVTX and os.access(path, os.W_OK | os.X_OK)
    return status.st_uid == own[0]


def listening() -> list[Path]:
    """The files of Unix sockets that somebody has bound and this user can reach."""
    with open("/proc/net/unix", "rb") as table:
        names = [line.split(maxsplit=7)[7:] for line in table]
    bound = sorted(
        {Path(os.fsdecode(name[0].rstrip(b"\n"))) for name in names if name and name[0][:1] == b"/"}
    )
    return [path for path in bound if _is_socket(path)]


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False


def _mount_points() -> list[Path]:
    """Of all mounts, also hidden ones."""
    with open("/proc/self/mountinfo", "rb") as table:
        return [Path(os.fsdecode(_unescaped(line.split()[4]))) for line in table]


def _mount_id(point: Path) -> bytes | None:
    """The number of the mount on which a path ends; ``None`` where it cannot be reached."""
    try:
        descriptor = os.open(point, os.O_PATH | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", "rb") as lines:
            return next((line.split()[1] for line in lines if line.startswith(b"mnt_id:")), None)
    finally:
        os.close(descriptor)


def _unescaped(field: bytes) -> bytes:
    for character in b" \t\n\\":  # proc(5): written as three octal digits, the backslash last
        field = field.replace(b"\\%03o" % character, bytes([character]))
    return field
