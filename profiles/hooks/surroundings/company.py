"""Who else of the program runs beside the thread that trains: other threads, and processes it started."""

import os
import sys
import threading
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
OURS = "advisor-"  # begins the names of threads of ours
WORKER = "pt_data_worker"  # the command of a worker of a DataLoader (torch.utils.data._utils.worker)
LITTLE = 0.02  # CPUs, below which nothing is told

Seconds = dict[tuple[str, int], float]
"""CPU time since its start of each thread (``thread``) and child (``child``), by its number."""


def cpu_seconds() -> Seconds:
    """Of the Python threads of this process and of all processes below it; none where the system hides it."""
    seconds: Seconds = {}
    for thread in threading.enumerate():
        spent = _of(f"/proc/self/task/{thread.native_id}/stat")
        if spent is not None and thread.native_id is not None:
            seconds["thread", thread.native_id] = spent
    for child in _children(os.getpid()):
        spent = _of(f"/proc/{child}/stat")
        if spent is not None:
            seconds["child", child] = spent
    return seconds


def company(before: Seconds, after: Seconds, seconds: float) -> dict[str, tuple[tuple[str, float], ...]]:
    """CPUs that each kept busy meanwhile, those with the most first.

    Args:
        before: At the begin, of the thread that calls this at the end.
        after: At the end.
        seconds: Between the two.

    Returns:
        ``training`` for the calling thread, ``threads`` for other Python threads and ``children``, by name.
    """
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    started = _started()
    found: dict[str, list[tuple[str, float]]] = {"training": [], "threads": [], "children": []}
    for (kind, number), spent in after.items():
        cpus = round((spent - before.get((kind, number), 0.0)) / max(seconds, 1e-9), 3)
        name = names.get(number, "") if kind == "thread" else _name(number, started)
        if kind == "thread" and number == threading.get_native_id():
            found["training"].append((name, cpus))
        elif cpus >= LITTLE and not name.startswith(OURS):
            found["threads" if kind == "thread" else "children"].append((name, cpus))
    return {kind: tuple(sorted(each, key=lambda one: -one[1])) for kind, each in found.items()}


def _of(stat: str) -> float | None:
    try:
        fields = Path(stat).read_text().rpartition(")")[2].split()
    except OSError:  # it has ended, or this is no Linux
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS


def _children(parent: int) -> list[int]:
    found: list[int] = []
    for listed in Path(f"/proc/{parent}/task").glob("*/children"):
        try:
            direct = [int(number) for number in listed.read_text().split()]
        except OSError:  # its thread has ended
            continue
        for child in direct:
            found += [child, *_children(child)]
    return found


def _started() -> dict[int, str]:
    """Names of the children that ``multiprocessing`` started, by process; none of them is reaped."""
    process = sys.modules.get("multiprocessing.process")
    children = getattr(process, "_children", ())  # `active_children()` would end those that are done
    return {child._popen.pid: child.name for child in list(children) if child._popen is not None}


def _name(process: int, started: dict[int, str]) -> str:
    """The name that the program gave it; its command where it gave none, and of a loader's worker."""
    command = _command(process)
    given = started.get(process, "")
    return command if command == WORKER or not given else given


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:  # it has ended
        return ""
