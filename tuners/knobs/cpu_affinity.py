"""On which CPUs a process may run."""

import os
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics

SYSTEM = Path("/sys/devices/system")


class CpuAffinity(Knob[str]):
    """Keeps the threads of the process, and the workers that it starts, on some of the allowed CPUs.

    `cores` takes one CPU for each thread and each loader worker, on a core of its own as long as there are
    cores, so that threads are not moved between caches. `node` takes the CPUs of one memory node, the one
    with the most of them: memory then lies where it is used. What runs beside it on the same CPUs can no
    longer be evaded: under load it was mixed (one run each), no cure for threads that share a core.

    It needs Linux, and several memory nodes or more CPUs than threads. The number of threads stays.
    """

    semantics = Semantics.EXACT
    units = BOTH
    usual_gain = 0.02
    written = ("numactl", "taskset")

    def __init__(self) -> None:
        self.folder = SYSTEM
        self._before: set[int] | None = None
        self._threads: int | None = None
        self._workers = 0

    def values(self) -> list[str]:
        return ["none", "cores", "node"]

    def present(self, profile: Profile) -> str:
        return "none"

    def choices(self, profile: Profile) -> list[str]:
        refusals = {value: _refusal(value, profile) for value in ("cores", "node")}
        if all(refusals.values()):
            raise Refused("; ".join(dict.fromkeys(reason for reason in refusals.values() if reason)))
        return ["none", *(value for value, reason in refusals.items() if not reason)]

    def check(self, value: str, profile: Profile) -> None:
        reason = _refusal(value, profile)
        if reason:
            raise Refused(reason)

    def prepare(self, config: Config, present: Config) -> None:
        """How many threads and workers need a CPU."""
        self._threads = int(config["num_threads"]) if "num_threads" in config else None
        self._workers = int(config.get("num_workers", 0))

    def process(self, value: str) -> None:
        """Bind all threads of this process; ``none`` brings back what was allowed before.

        Raises:
            Refused: The choice is no smaller than what is allowed, or the system forbids it.
        """
        import torch

        allowed = self._before if self._before is not None else os.sched_getaffinity(0)
        chosen = set(allowed)
        if value == "cores":
            wanted = (self._threads or torch.get_num_threads()) + self._workers
            chosen = spread(allowed, wanted, self.folder)
        elif value == "node":
            chosen = memory_nodes(allowed, self.folder)[0]
        if value != "none" and chosen == allowed:
            raise Refused(f"the choice is all {len(allowed)} CPUs that are allowed")
        self._before = set(allowed)
        _bind(chosen)

    def change(self, value: str) -> Change:
        match value:
            case "cores":
                return Change("# start with: taskset --cpu-list 0-N python ...  # one CPU for each thread")
            case "node":
                return Change("# start with: numactl --cpunodebind=0 --membind=0 python ...")
        return Change("# start the program without taskset and numactl")


def memory_nodes(cpus: Set[int], folder: Path = SYSTEM) -> list[set[int]]:
    """``cpus`` by memory node, the node with the most of them first; one node where none is known."""
    lists = (_read(path / "cpulist") for path in sorted(folder.glob("node/node[0-9]*")))
    nodes = [found for listed in lists if (found := listed & set(cpus))]
    return sorted(nodes, key=len, reverse=True) or [set(cpus)]


def spread(cpus: Set[int], wanted: int, folder: Path = SYSTEM) -> set[int]:
    """``wanted`` of the ``cpus``: one of each core before a second one, larger memory nodes first."""
    places = []
    for number, node in enumerate(memory_nodes(cpus, folder)):
        for cpu in node:
            siblings = _read(folder / f"cpu/cpu{cpu}/topology/thread_siblings_list") & set(cpus)
            places.append((sum(other < cpu for other in siblings), number, cpu))
    return {cpu for _, _, cpu in sorted(places)[:wanted]}


def _refusal(value: str, profile: Profile) -> str | None:
    machine = profile.machine
    if value == "none":
        return None
    if not machine.platform.startswith("Linux"):
        return "a process is bound to CPUs on Linux only"
    if value == "node":
        return None if (machine.numa_nodes or 1) > 1 else "the allowed CPUs lie on one memory node"
    threads = profile.run.num_threads if profile.run is not None else machine.torch_default_threads
    busy = (threads or 1) + (profile.loader.num_workers if profile.loader is not None else 0)
    if busy >= machine.cpus_allowed:
        return f"{busy} threads and workers need all {machine.cpus_allowed} CPUs"
    return None


def _bind(cpus: Set[int]) -> None:
    for task in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # the thread has ended meanwhile
            try:
                os.sched_setaffinity(int(task), cpus)
            except PermissionError as error:
                raise Refused(f"the system forbids it: {error.strerror}") from None


def _read(path: Path) -> set[int]:
    """``0-3,8`` in a file as a set of numbers; empty where there is no such file."""
    found: set[int] = set()
    if path.is_file():
        for part in filter(None, path.read_text().strip().split(",")):
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    return found
