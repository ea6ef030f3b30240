import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import a_loader, a_machine, a_profile, a_run

from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.cpu_affinity import CpuAffinity, memory_nodes, spread

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def two_nodes(folder: Path) -> Path:
    """Eight CPUs: cores with threads (n and n + 4), cores 0 and 1 on one node, 2 and 3 on another."""
    for node, cpus in enumerate(("0-1,4-5", "2-3,6-7")):
        (folder / f"node/node{node}").mkdir(parents=True)
        (folder / f"node/node{node}/cpulist").write_text(f"{cpus}\n")
    for cpu in range(8):
        (folder / f"cpu/cpu{cpu}/topology").mkdir(parents=True)
        (folder / f"cpu/cpu{cpu}/topology/thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    return folder


class Machine:
    """Eight CPUs, of which the process may use six; remembers what was bound to what."""

    def __init__(self) -> None:
        self.allowed = {0, 1, 2, 4, 5, 6}
        self.bound: dict[int, set[int]] = {}

    def set(self, task: int, cpus: set[int]) -> None:
        self.bound[task] = set(cpus)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(os, "sched_getaffinity", lambda task: set(made.allowed))
    monkeypatch.setattr(os, "sched_setaffinity", made.set)
    return made


@pytest.fixture
def knob(tmp_path: Path) -> CpuAffinity:
    made = CpuAffinity()
    made.folder = two_nodes(tmp_path)
    return made


@pytest.fixture
def another_thread() -> Iterator[int]:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    assert thread.native_id is not None
    yield thread.native_id
    end.set()
    thread.join()


def test_nodes_hold_the_allowed_cpus_the_largest_first(tmp_path: Path) -> None:
    assert memory_nodes({1, 2, 3, 6, 7}, two_nodes(tmp_path)) == [{2, 3, 6, 7}, {1}]
    assert memory_nodes({1, 2}, tmp_path / "nowhere") == [{1, 2}]


@pytest.mark.parametrize(
    ("wanted", "cpus"), [(2, {0, 1}), (3, {0, 1, 2}), (4, {0, 1, 2, 3}), (6, {0, 1, 2, 3, 4, 5})]
)
def test_cores_come_before_second_hardware_threads(tmp_path: Path, wanted: int, cpus: set[int]) -> None:
    assert spread(set(range(8)), wanted, two_nodes(tmp_path)) == cpus


@pytest.mark.parametrize(
    ("value", "workers", "cpus"), [("cores", 0, {0, 1}), ("cores", 1, {0, 1, 2}), ("node", 0, {0, 1, 4, 5})]
)
def test_all_threads_are_bound(
    machine: Machine, knob: CpuAffinity, another_thread: int, value: str, workers: int, cpus: set[int]
) -> None:
    run = a_run({"num_threads": 2, "num_workers": workers}, cpu_affinity=knob)
    run.configure({"cpu_affinity": value})
    run.process()
    assert run.applied == {"cpu_affinity"}
    assert machine.bound[another_thread] == machine.bound[os.getpid()] == cpus


def test_what_was_allowed_comes_back(machine: Machine, knob: CpuAffinity) -> None:
    run = a_run({"num_threads": 2}, cpu_affinity=knob)
    run.process()
    run.configure({"cpu_affinity": "node"})
    machine.allowed = machine.bound[os.getpid()]
    run.configure({})
    assert machine.bound[os.getpid()] == {0, 1, 2, 4, 5, 6}


def test_a_choice_of_everything_is_refused(machine: Machine, knob: CpuAffinity) -> None:
    run = a_run({"num_threads": 6}, cpu_affinity=knob)
    run.configure({"cpu_affinity": "cores"})
    run.process()
    assert run.refused == {"cpu_affinity": "the choice is all 6 CPUs that are allowed"}
    assert machine.bound == {}


def test_a_system_that_forbids_it_is_told(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, knob: CpuAffinity
) -> None:
    def forbid(task: int, cpus: set[int]) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", forbid)
    with pytest.raises(Refused, match="Operation not permitted"):
        knob.process("node")


@pytest.mark.parametrize(
    ("profile", "choices"),
    [
        (a_profile(a_machine(numa_nodes=2), run=RunFacts(num_threads=4)), ["none", "node"]),
        (a_profile(run=RunFacts(num_threads=2)), ["none", "cores"]),
        (a_profile(a_machine(numa_nodes=2), run=RunFacts(num_threads=2)), ["none", "cores", "node"]),
    ],
)
def test_what_the_machine_leaves_open_is_tried(profile: Profile, choices: list[str]) -> None:
    assert CpuAffinity().choices(profile) == choices


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(run=RunFacts(num_threads=4)), "4 threads and workers need all 4 CPUs; .* one memory node"),
        (a_profile(run=RunFacts(num_threads=2), loader=a_loader(num_workers=2)), "threads and workers need"),
        (a_profile(a_machine(platform="Darwin arm64")), "on Linux only"),
    ],
)
def test_where_nothing_can_be_chosen_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        CpuAffinity().choices(profile)
