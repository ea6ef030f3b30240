"""A few consecutive steps measured together, in the process that makes them."""

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from advisor.profiles.events import Run
from advisor.profiles.hooks.step.clock import Step
from advisor.tuners.trial.clocks import held_down
from advisor.tuners.trial.messages import SlotMeasured

CPU_STAT = Path("/sys/fs/cgroup/cpu.stat")
ALLOWED = frozenset(os.sched_getaffinity(0))  # before a setting keeps this process to some of them
RAN = (0, 1, 2, 7)  # user, nice, system, stolen: which fields of a CPU in /proc/stat
FLAGGED_LIMIT = 10  # steps with evaluation or saves in them, before they are measured all the same


class SlotTask:
    """A few consecutive steps measured together; flagged ones are counted apart.

    Flags in ``keep`` do not set a step apart: a window for loaders includes the start of an epoch.
    A slot that takes longer than ``limit_s`` ends early: a candidate a hundred times slower than the
    baseline is recognised by one step. One that ``awaits_clean`` steps goes on for a while where there are
    none; a program that evaluates after each step has none at all. An ``exact`` one takes the steps asked
    for, whatever their flags and kind: ranks that wait for each other must take equally many, and a program
    that ends has no others. ``started_s`` tells at its end what the latest switch took to start iterators
    of loaders.
    """

    def __init__(
        self,
        run: Run,
        steps: int,
        drop: int,
        keep: frozenset[str],
        limit_s: float,
        device: str,
        *,
        exact: bool = False,
        awaits_clean: bool = True,
        started_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._run = run
        self._started_s = started_s
        self._wanted = steps
        self._limit_s = limit_s
        self._drop = drop
        self._keep = keep
        self._exact = exact
        self._most_flagged = steps * 2 + FLAGGED_LIMIT if awaits_clean else steps
        self._cuda = device.startswith("cuda") or (device == "auto" and cuda_in_use())
        self._clean: list[Step] = []
        self._flagged: list[Step] = []
        self._read_counters()
        self._all_ns = 0
        self._end_sync_ns = 0

    def begin(self) -> None:
        """At the step border before."""
        self.synchronise()

    def take(self, step: Step) -> bool:
        """Add a step; whether the slot is complete."""
        if self._clean and step.kind != self._clean[0].kind and not self._exact:
            self._clean.clear()
            self._flagged.clear()
        if self._drop > 0:
            self._drop -= 1
            if self._drop == 0:
                self.synchronise()
                self._read_counters()
            return False
        self._all_ns += step.wall_ns
        (self._flagged if step.flags - self._keep else self._clean).append(step)
        if time.perf_counter() - self._began >= self._limit_s:
            return True
        if self._exact:
            return len(self._clean) + len(self._flagged) >= self._wanted
        return len(self._clean) >= self._wanted or len(self._flagged) >= self._most_flagged

    @property
    def waited_in_vain(self) -> bool:
        """Whether it looked for clean steps, and none of those that it took was."""
        return not self._exact and not self._clean

    def _read_counters(self) -> None:
        self._began = time.perf_counter()
        self._load_before = cpu_times()
        self._throttled_before = throttled_s()
        self._cpu_before = time.process_time_ns()

    def _cpu_ns(self, measured_ns: int) -> int:
        """CPU time of this process with all its threads in the measured steps: their part of the slot's."""
        spent = time.process_time_ns() - self._cpu_before
        return round(spent * min(1.0, measured_ns / max(1, self._all_ns)))

    def synchronise(self) -> None:
        """On a CUDA device: wait for it, so that times are those of the device and not of launches."""
        if self._cuda:
            import torch

            before = time.perf_counter_ns()
            torch.cuda.synchronize()
            self._end_sync_ns = time.perf_counter_ns() - before

    def finish(self) -> SlotMeasured:
        """What the tuner is told of the slot."""
        self.synchronise()
        run = self._run
        steps = self._clean or self._flagged
        wall = [step.wall_ns for step in steps]
        if self._cuda and wall:
            wall[-1] += self._end_sync_ns
        phases: dict[str, int] = {}
        flags: dict[str, int] = {}
        for step in steps:
            for name, spent in step.phases_ns.items():
                phases[name] = phases.get(name, 0) + spent
        for step in self._flagged:
            for name in step.flags:
                flags[name] = flags.get(name, 0) + 1
        if self._cuda and held_down(current_device()):
            flags["throttled"] = len(steps)
        own, everyone = (after - before for after, before in zip(cpu_times(), self._load_before, strict=True))
        return SlotMeasured(
            wall_ns=tuple(wall),
            cpu_ns=self._cpu_ns(sum(wall)),
            phases_ns=phases,
            flags=flags,
            flagged_ns=tuple(step.wall_ns for step in self._flagged),
            all_flagged=not self._clean,
            kept=tuple(index for index, step in enumerate(steps) if step.flags & self._keep),
            loader_samples=sum(step.loader_samples for step in steps),
            root_samples=sum(step.root_samples for step in steps),
            other_cpu_s=max(0.0, everyone - own),
            own_cpu_s=own,
            throttled_s=throttled_s() - self._throttled_before,
            applied=tuple(sorted(run.applied)),
            refused=dict(run.refused),
            unanswered=tuple(run.unanswered()),
            loader_start_s=self._started_s(),
        )


def cpu_times() -> tuple[float, float]:
    """CPU seconds used by this process tree, and by all on the CPUs that it was allowed when it began.

    Those are user, nice and system time, and what a hypervisor took. What others do on CPUs that are not
    ours, as on a node of which a job has a part, is no load beside this process.
    """
    ticks = os.sysconf("SC_CLK_TCK")
    with open("/proc/stat") as stat:
        busy = busy_ticks(takewhile(lambda line: line.startswith("cpu"), stat), ALLOWED)
    return sum(_cpu_ticks(pid) for pid in _tree(os.getpid())) / ticks, busy / ticks


def busy_ticks(lines: Iterable[str], cpus: Collection[int]) -> int:
    """Clock ticks in which something ran on these CPUs; on all, where the kernel does not tell of each.

    Args:
        lines: Of ``/proc/stat``, that of all CPUs together first.
        cpus: Their numbers.
    """
    ran = {}
    for line in lines:
        name, *fields = line.split()
        ran[name] = sum(int(fields[place]) for place in RAN)
    own = [f"cpu{number}" for number in cpus]
    return sum(ran[name] for name in own) if ran.keys() >= set(own) else ran["cpu"]


def throttled_s() -> float:
    """Seconds in which the cgroup's CPU quota has held this process up; 0 without such a quota."""
    try:
        lines = CPU_STAT.read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("throttled_usec")) / 1e6


def _tree(pid: int) -> Iterator[int]:
    """A process and all its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:  # the thread has ended meanwhile
            continue
        for child in children:
            yield from _tree(int(child))


def _cpu_ticks(pid: int) -> int:
    """User and system time of a process and of its reaped children, in clock ticks."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:  # it has ended meanwhile
        return 0
    return sum(int(field) for field in fields[11:15])


def current_device() -> int:
    """The CUDA device that this process works on."""
    import torch

    return int(torch.cuda.current_device())


def cuda_in_use() -> bool:
    """Whether this process has begun to use a CUDA device."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()
