"""How much this process has of what the system limits, in a few microseconds; and the limits."""

import os
import resource
import shutil
import sys
from pathlib import Path

from advisor.profiles.facts.machine import CGROUP

PAGE = resource.getpagesize()
SHARED = "/dev/shm"
THREADS, MAPPED, RESIDENT = 17, 20, 21  # places in /proc/self/stat behind the name of the program


def read_resources() -> dict[str, float]:
    """Every quantity that can be read here, by kind (``Readings``)."""
    found: dict[str, float] = {}
    stat = _read("/proc/self/stat").rpartition(b")")[2].split()
    if len(stat) > RESIDENT:
        found["threads"] = float(stat[THREADS])
        found["mapped"] = float(stat[MAPPED])
        found["memory"] = float(stat[RESIDENT]) * PAGE
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        found["memory"] = float(torch.cuda.memory_allocated())
    files = _open_files()
    if files is not None:
        found["open_files"] = float(files)
    found["children"] = float(len(_read(f"/proc/self/task/{os.getpid()}/children").split()))
    for line in _read("/proc/self/io").splitlines():
        if line.startswith(b"write_bytes"):
            found["written"] = float(line.split()[1])
    if os.path.isdir(SHARED):
        space = os.statvfs(SHARED)
        found["shared_memory"] = float((space.f_blocks - space.f_bfree) * space.f_frsize)
    return found


def limits(now: dict[str, float]) -> dict[str, float]:
    """The value of each kind at which the run ends, where there is one.

    Args:
        now: As ``read_resources`` tells it.
    """
    found: dict[str, float] = {}
    for kind, which in (("open_files", resource.RLIMIT_NOFILE), ("mapped", resource.RLIMIT_AS)):
        most = resource.getrlimit(which)[0]
        if most != resource.RLIM_INFINITY:
            found[kind] = float(most)
    processes = _read(str(CGROUP / "pids.max")).strip()
    if processes.isdigit():
        found["threads"] = found["children"] = float(processes)
    if os.path.isdir(SHARED):
        space = os.statvfs(SHARED)
        found["shared_memory"] = float(space.f_blocks * space.f_frsize)
    if "written" in now:
        found["written"] = now["written"] + shutil.disk_usage(os.getcwd()).free
    return found


def _open_files() -> int | None:
    try:
        counted = os.stat("/proc/self/fd").st_size  # Linux 6.2 and later; 0 before
        return counted or len(os.listdir("/proc/self/fd")) - 1  # without the one that lists
    except OSError:
        return None


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
