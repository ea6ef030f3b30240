"""Processes as the kernel shows them: who is below whom, who is alive, and how to end all of them.

Standard library only, as it is part of the supervisor. Linux is first class; without ``prctl`` and
``/proc`` (macOS) it works by process groups, which a child that leaves its group escapes.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 1, 36, 37  # linux/prctl.h
PF_EXITING = 4  # linux/sched.h
KILL_WAIT_S = 30.0  # a process in uninterruptible sleep may outlast any signal
GRACE_S = 3.0
RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes, of ru_maxrss (man getrusage)
CGROUPS, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")

HAS_PROC = Path("/proc/self/stat").exists()
LISTS_CHILDREN = Path("/proc/thread-self/children").exists()  # not in every kernel


def become_subreaper(wanted: bool = True) -> bool:
    """Let orphaned descendants become children of this process, or no longer; whether the system can."""
    return prctl(PR_SET_CHILD_SUBREAPER, int(wanted))


def is_subreaper() -> bool:
    """Whether orphaned descendants become children of this process."""
    answer = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)


def die_with_parent(expected_parent: int) -> None:
    """Have this process killed when its parent ends, or at once if that is not ``expected_parent`` any more.

    Survives ``exec``, but not a fork: each child says it again. The parent's *thread* that forked counts.
    """
    if prctl(PR_SET_PDEATHSIG, signal.SIGKILL) and os.getppid() != expected_parent:
        os.kill(os.getpid(), signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Every process below ``pid``, zombies included, parents first; empty where there is no ``/proc``."""
    found = [pid]
    for parent in found:  # grows while it is read
        found += [child for child in children(parent) if child not in found]
    return found[1:]


def kill_tree(*pids: int, grace_s: float = GRACE_S, spare: Collection[int] = ()) -> int:
    """End ``pids`` and everything below them: SIGTERM, ``grace_s`` seconds, SIGKILL; at most 30 s more.

    With the caller's own pid: everything below the caller, orphans it adopted included, but not itself.
    Adopted orphans are reaped; ``pids`` themselves are left to whoever waits for them.

    Args:
        pids: Each the leader of its own process group where there is no ``/proc``.
        grace_s: Seconds between the two signals.
        spare: Processes that stay, with all that is below them.

    Returns:
        How many processes are still there.
    """
    if not HAS_PROC:
        return _kill_groups(pids, grace_s)
    grace_ends = time.monotonic() + grace_s
    spared = _trees(spare) | {os.getpid()}
    known: dict[int, int | None] = {}  # with the start time: a number can be given to another process
    asked: set[int] = set()
    while True:
        for process in _trees([*pids, *known]) - spared - known.keys():
            known[process] = living_since(process)
        living = {process for process, since in known.items() if since and since == living_since(process)}
        now = time.monotonic()
        if not living or now > grace_ends + KILL_WAIT_S:
            break
        if now < grace_ends:
            send(living - asked, signal.SIGTERM, signal.SIGCONT)
            asked |= living
        else:
            send(living, signal.SIGKILL)
        time.sleep(0.02)
    for process in known.keys() - set(pids):
        with contextlib.suppress(ChildProcessError):  # not adopted: its own parent reaps it
            os.waitpid(process, os.WNOHANG)
    return len(living)


def prctl(option: int, value: int) -> bool:
    """Set an option of this process (``man 2 prctl``); whether the system can."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0)


def pidfd(pid: int) -> int | None:
    """A descriptor that can be read once the process ended; ``None`` before Linux 5.3 and elsewhere."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _stat(pid: int) -> list[bytes]:
    """The fields of ``/proc/PID/stat`` from the third on; empty once the process is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return []


def session_of(pid: int) -> int | None:
    """The session a process belongs to, also for a zombie; ``None`` once it is gone."""
    fields = _stat(pid)
    return int(fields[3]) if fields else None


def living_since(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; ``None`` if it is gone or a zombie."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in (b"Z", b"X") else None


def is_exiting(pid: int) -> bool:
    """Whether a process is at its end, but has not handed on its children yet."""
    fields = _stat(pid)
    return bool(fields) and bool(int(fields[6]) & PF_EXITING) and fields[0] not in (b"Z", b"X")


def children(pid: int) -> list[int]:
    """The processes that ``pid`` started or adopted, zombies included; empty where there is no ``/proc``."""
    found: list[int] = []
    if not LISTS_CHILDREN:
        others = [int(name) for name in os.listdir("/proc") if name.isdigit()] if HAS_PROC else []
        return [other for other in others if _stat(other)[1:2] == [b"%d" % pid]]
    with contextlib.suppress(OSError):  # ended meanwhile
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_bytes().split())
    return found


def _trees(roots: Iterable[int]) -> set[int]:
    return {process for root in roots for process in (root, *descendants(root))}


def send(pids: Iterable[int], *signals: signal.Signals) -> None:
    """Send signals to each process that is still there; a negative number means a process group."""
    for pid in pids:
        for number in signals:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # gone; a set-user-ID program
                os.kill(pid, number)


def _kill_groups(leaders: Collection[int], grace_s: float) -> int:
    groups = [-leader for leader in leaders]
    send(groups, signal.SIGTERM, signal.SIGCONT)
    time.sleep(grace_s)
    send(groups, signal.SIGKILL)
    return 0


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal, which would end it otherwise."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def oom_kills() -> int:
    """How many processes of this cgroup were killed for memory so far; 0 where the kernel does not say."""
    text = next(_of_cgroup("memory.events", "memory.oom_control"), "")
    return int(dict(row.split() for row in text.splitlines()).get("oom_kill", 0))


def memory_limit() -> int:
    """Bytes of host memory that this process may use: the least of what machine, cgroups and ulimit allow."""
    allowed = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    allowed += [
        int(text) for text in _of_cgroup("memory.max", "memory.limit_in_bytes") if text.strip().isdigit()
    ]
    own, _ = resource.getrlimit(resource.RLIMIT_AS)
    return min(allowed if own == resource.RLIM_INFINITY else [*allowed, own])


def _of_cgroup(second: str, first: str) -> Iterator[str]:
    """The contents of a file of this process's memory cgroup and of those above it, from below.

    Args:
        second: Its name in version 2 of cgroups.
        first: Its name in version 1.
    """
    for line in _text(MEMBERSHIP).splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" not in controllers.split(",") and controllers:
            continue
        root, name = (CGROUPS / "memory", first) if controllers else (CGROUPS, second)
        folder = root / path.lstrip("/")
        folders = [folder, *folder.parents]
        for each in folders[: folders.index(root) + 1]:  # in a container the path may be the host's
            if text := _text(each / name):
                yield text


def _text(path: Path) -> str:
    """What a file of the kernel says; an empty text where there is none."""
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")
    return ""
