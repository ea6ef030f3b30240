"""Which files Python code opens, and whether they lie on a network file system."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from advisor.profiles.hooks.user_lines import LIBRARIES

NETWORK = (
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "lustre", "gpfs", "glusterfs", "beegfs", "afs", "wekafs",
)  # fmt: skip
LOCAL_FUSE = ("fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.portal")
CODE = (".py", ".pyc", ".so", ".pth")
PSEUDO_FILES = ("/proc/", "/sys/", "/dev/")


class _Ear:
    """The one audit hook of this process, which cannot be removed, with a switch."""

    def __init__(self) -> None:
        self.heard: list[str] | None = None
        self._installed = False

    def install(self) -> None:
        """Hear events from now on, once."""
        if not self._installed:
            self._installed = True
            sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and self.heard is not None and isinstance(args[0], (str, bytes)):
            self.heard.append(os.fsdecode(args[0]))


_EAR = _Ear()


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """The files opened inside the block, in a list that grows; code, libraries and devices left out."""
    _EAR.install()
    heard: list[str] = []
    files: list[str] = []
    _EAR.heard = heard
    try:
        yield files
    finally:
        _EAR.heard = None
        files += [path for path in map(os.path.realpath, heard) if _is_data(path)]


def network_filesystem(files: Iterable[str], mounts: str | None = None) -> str | None:
    """Type of the file system that holds most of these files, if it is reached over a network.

    Args:
        files: Absolute paths.
        mounts: What is mounted, in the form of ``/proc/mounts``; read there without it.
    """
    table = _mounted(mounts if mounts is not None else _read_mounts())
    types = Counter(_type_of(path, table) for path in files)
    if not types:
        return None
    kind, _ = types.most_common(1)[0]
    is_fuse = kind.startswith("fuse.") and kind not in LOCAL_FUSE
    return kind if kind in NETWORK or is_fuse else None


def _read_mounts() -> str:
    try:
        return Path("/proc/mounts").read_text()
    except OSError:  # not on Linux
        return ""


def _mounted(mounts: str) -> list[tuple[str, str]]:
    """Folder and type of every mount; later ones cover earlier ones."""
    rows = [line.split() for line in mounts.splitlines()]
    return [(row[1].replace("\\040", " "), row[2]) for row in rows if len(row) > 2]


def _type_of(path: str, table: list[tuple[str, str]]) -> str:
    best, kind = "", ""
    for folder, each in table:
        if len(folder) >= len(best) and path.startswith(os.path.join(folder, "")):
            best, kind = folder, each
    return kind


def _is_data(path: str) -> bool:
    return not path.endswith(CODE) and not path.startswith((*LIBRARIES, *PSEUDO_FILES))
