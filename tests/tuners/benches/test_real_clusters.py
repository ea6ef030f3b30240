"""Processes on two nodes of a real Ray and of a real SLURM: what they see, and what is left of them."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from clusters import COUNTING, WAIT_S, Cluster, a_cluster, counted, opened, programs, running
from supervised import marked, until

from advisor.profiles.facts.machine import read_machine
from advisor.runs.nodes import look_at
from advisor.tuners.benches.engine import BenchLost

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("no_process_remains")]

LOST_S = {"ray": 15.0, "slurm": 30.0}  # until a loss has to be seen
AGAIN = 3  # of each kill
ENVIRONMENT = """
import os
theirs = ("RAY", "SLURM_STEP", "SLURM_PROC", "SLURM_NT", "OMP", "PMI")
print(*sorted(name for name in os.environ if name.startswith(theirs)))
print(os.environ.get("OMP_NUM_THREADS"), os.nice(0), len(os.sched_getaffinity(0)), flush=True)
input()
"""
TUNER = """
import sys, time
from pathlib import Path
from advisor.tuners.benches.engines import open_engine
engine = open_engine({name!r}, Path({folder!r}))
node = next(node for node in engine.nodes() if not node.here)
line = engine.open(node, [sys.executable, "-c", {program!r}])
print(line.receive(60), flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module", params=["ray", "slurm"])
def _standing(request: pytest.FixtureRequest) -> Iterator[tuple[str, Cluster]]:
    """A cluster for all tests that leave it as it is."""
    with a_cluster(request.param) as cluster:
        yield request.param, cluster


@pytest.fixture
def cluster(_standing: tuple[str, Cluster], monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """This process is in the cluster, kept to the CPU of its node."""
    for name, value in _standing[1].variables.items():
        monkeypatch.setenv(name, value)
    return _standing[1]


@pytest.fixture
def name(_standing: tuple[str, Cluster]) -> str:
    """Of the engine."""
    return _standing[0]


def test_the_nodes_are_named_with_what_they_have(cluster: Cluster, tmp_path: Path) -> None:
    with closing(cluster.engine(tmp_path)) as engine:
        nodes = engine.nodes()
    assert [(node.cpus, node.gpus) for node in nodes] == [(1, 0), (1, 0)]
    assert sorted(node.here for node in nodes) == [False, True]


def test_a_program_sees_the_tuners_environment_and_nothing_of_the_engine(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with closing(cluster.engine(tmp_path)) as engine:
        line = opened(engine, ENVIRONMENT)
        assert line.receive(WAIT_S) == ""
        assert line.receive(WAIT_S) == "None 0 1"
        line.close()


def test_every_node_answers_for_itself(cluster: Cluster, tmp_path: Path) -> None:
    seen = look_at(cluster.engine(tmp_path), read_machine())
    assert [node.why for node in seen] == ["", ""]
    assert {node.machine["python"] for node in seen} == {"{}.{}.{}".format(*sys.version_info)}


def test_a_node_is_for_one_at_a_time(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(cluster.engine(tmp_path)) as engine:
        line = opened(engine, COUNTING)
        assert line.receive(WAIT_S) == "0"
        for variable, value in cluster.variables.items():  # of which the first took the token away
            monkeypatch.setenv(variable, value)
        with closing(cluster.engine(tmp_path, start_s=8.0)) as second, pytest.raises(BenchLost) as told:
            opened(second, COUNTING)
        assert "taken" in str(told.value) or "busy" in str(told.value)
        line.close()
        with closing(cluster.engine(tmp_path)) as third:
            again = opened(third, COUNTING)
            assert again.receive(WAIT_S) == "0"
            again.close()


@pytest.mark.parametrize("killed", ["process", "relay", "client"])
@pytest.mark.parametrize("again", range(AGAIN))
def test_a_loss_is_seen_and_every_line_before_it_came_once(
    cluster: Cluster, name: str, no_process_remains: str, tmp_path: Path, killed: str, again: int
) -> None:
    with closing(cluster.engine(tmp_path)) as engine:
        line = opened(engine, COUNTING)
        assert line.receive(WAIT_S) == "0"
        (process,) = programs()
        relay = process.parent()
        assert relay is not None
        victim = {
            "process": process,
            "relay": relay,
            "client": (running("ray_client") or running("srun --nodes=1"))[0],
        }[killed]
        assert victim is not None
        victim.send_signal(signal.SIGKILL)
        numbers = counted(line, LOST_S[name])
        assert numbers == list(range(1, 1 + len(numbers)))
        until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, WAIT_S)
        line.close()
    until(lambda: not marked(no_process_remains), WAIT_S)


@pytest.mark.parametrize("again", range(AGAIN))
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_of_a_tuner_that_is_killed(
    cluster: Cluster, name: str, no_process_remains: str, tmp_path: Path, how: signal.Signals, again: int
) -> None:
    program = TUNER.format(name=name, folder=str(tmp_path), program=COUNTING)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as tuner:
        assert tuner.stdout is not None
        assert tuner.stdout.readline() == "0\n"
        tuner.send_signal(how)
    took_s = until(lambda: not marked(no_process_remains), WAIT_S)
    print(f"{name}: nothing left {took_s:.2f} s after the tuner's end")
