"""Benches as actors of Ray, with a package that stands in for Ray and runs actors in threads."""

import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from advisor.base.errors import EnvironmentProblem
from advisor.tuners.benches.engine import BenchLost, Node
from advisor.tuners.benches.ray_engine import RayEngine

RAY = """
import os, sys, types
from concurrent.futures import ThreadPoolExecutor

class RayError(Exception): pass
class GetTimeoutError(RayError): pass
class AuthenticationError(RayError): pass

exceptions = types.ModuleType("ray.exceptions")
exceptions.RayError, exceptions.GetTimeoutError = RayError, GetTimeoutError
strategies = types.ModuleType("ray.util.scheduling_strategies")
strategies.NodeAffinitySchedulingStrategy = lambda node, soft: (node, soft)
util = types.ModuleType("ray.util")
for module in (exceptions, util, strategies):
    sys.modules[module.__name__] = module

def init(**options):
    assert options["address"] == "auto"
    assert os.environ["RAY_AUTH_TOKEN"] == "secret"
    if os.environ.get("FAKE_RAY_FAILS"):
        kind, text = os.environ["FAKE_RAY_FAILS"].split(":")
        raise {"ConnectionError": ConnectionError, "RuntimeError": RuntimeError,
               "AuthenticationError": AuthenticationError}[kind](text)

def a_node(name, host, alive=True):
    return {"NodeID": name, "Alive": alive, "Resources": {"CPU": 8.0, "GPU": 2.0},
            "NodeManagerAddress": "10.0.0." + name[1:], "NodeManagerHostname": host}

def nodes():
    print("a word of its own")
    return [a_node("n2", "b"), a_node("n1", "a"), a_node("n3", "c", alive=False), a_node("n4", "b")]

class Context:
    def get_node_id(self): return "n1"

get_runtime_context = Context

class Method:
    def __init__(self, call, pools): self.call, self.pools, self.group = call, pools, "none"
    def options(self, concurrency_group):
        self.group = concurrency_group
        return self
    def remote(self, *arguments):
        return self.pools.setdefault(self.group, ThreadPoolExecutor(1)).submit(self.call, *arguments)

class Actor:
    def __init__(self, made): self.made, self.pools = made, {}
    def __getattr__(self, name): return Method(getattr(self.made, name), self.pools)

def remote(**options):
    node, soft = options["scheduling_strategy"]
    assert (options["num_cpus"], options["num_gpus"], soft) == (8.0, 2.0, False)
    def made(kind):
        os.environ["OMP_NUM_THREADS"] = "1"  # as Ray does in workers
        return types.SimpleNamespace(remote=lambda *arguments: Actor(kind(*arguments)))
    return made

def get(future, timeout=None): return future.result(timeout)
def kill(actor): pass
def shutdown(): pass
"""
PROGRAM = """
import os
of_ray = [name for name in os.environ if name.startswith("RAY_")]
print(of_ray, os.environ.get("OMP_NUM_THREADS"), flush=True)
while True: print(input()[::-1], flush=True)
"""
WAIT_S = 30.0
REMOTE = Node("b-10.0.0.2", 8, 2)

pytestmark = pytest.mark.usefixtures("no_process_remains")


@pytest.fixture
def ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster of three nodes that live; the folder is for logs."""
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text(RAY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    return tmp_path


def test_nodes_that_live_are_named_by_host_or_where_two_share_it_by_address_too(ray: Path) -> None:
    with closing(RayEngine(ray)) as engine:
        assert engine.nodes() == [Node("a", 8, 2, True), REMOTE, Node("b-10.0.0.4", 8, 2)]


def test_a_program_sees_neither_the_token_nor_the_threads_that_ray_sets(ray: Path) -> None:
    with closing(RayEngine(ray)) as engine:
        assert "RAY_AUTH_TOKEN" not in os.environ
        line = engine.open(REMOTE, [sys.executable, "-c", PROGRAM])
        assert line.receive(WAIT_S) == "[] 3"
        for text in ("ab", "x" * 300_000 + "y"):
            line.send(text)
            assert line.receive(WAIT_S) == text[::-1]
        line.close()
        line.close()
    assert os.environ["RAY_AUTH_TOKEN"] == "secret"


def test_the_end_of_a_program_is_told_and_another_goes_on(ray: Path) -> None:
    with closing(RayEngine(ray)) as engine:
        first = engine.open(REMOTE, [sys.executable, "-c", "raise SystemExit('no luck')"])
        second = engine.open(Node("b-10.0.0.4", 8, 2), [sys.executable, "-c", PROGRAM])
        with pytest.raises(BenchLost, match="exit status 1: no luck"):
            first.receive(WAIT_S)
        first.close()
        assert second.receive(WAIT_S) == "[] 3"


def test_without_its_client_every_line_is_lost_and_nothing_is_left(ray: Path) -> None:
    with closing(RayEngine(ray)) as engine:
        line = engine.open(REMOTE, [sys.executable, "-c", PROGRAM])
        assert line.receive(WAIT_S) == "[] 3"
        (client,) = [
            each for each in psutil.process_iter(["cmdline", "ppid"])  # that of a zombie is None
            if each.info["ppid"] == os.getpid() and "ray_client" in " ".join(each.info["cmdline"] or ())
        ]  # fmt: skip
        below = client.children(recursive=True)
        client.send_signal(signal.SIGKILL)
        with pytest.raises(BenchLost, match="Ray's client is gone, killed by signal 9"):
            line.receive(WAIT_S)
        with pytest.raises(BenchLost):
            line.send("on")
        gives_up = time.monotonic() + WAIT_S
        while any(each.is_running() for each in below):
            assert time.monotonic() < gives_up
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("fails", "hint"),
    [
        ("ConnectionError:Could not find any running Ray instance", "`ray start --head`"),
        ("AuthenticationError:token missing", "RAY_AUTH_TOKEN"),
        ("RuntimeError:Version mismatch", "the same Python, to the last digit"),
    ],
)
def test_a_cluster_that_cannot_be_reached_is_told_with_the_next_step(
    ray: Path, monkeypatch: pytest.MonkeyPatch, fails: str, hint: str
) -> None:
    monkeypatch.setenv("FAKE_RAY_FAILS", fails)
    with pytest.raises(EnvironmentProblem) as told:
        RayEngine(ray)
    assert told.value.cause == fails.partition(":")[2]
    assert hint in str(told.value.hint)
    assert os.environ["RAY_AUTH_TOKEN"] == "secret"


def test_ray_client_is_refused(ray: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    with pytest.raises(EnvironmentProblem, match="not through Ray Client"):
        RayEngine(ray)


def test_a_cluster_without_an_answer_is_told(ray: Path) -> None:
    (ray / "ray" / "__init__.py").write_text("raise ImportError('libray is broken')")
    with pytest.raises(EnvironmentProblem) as told:
        RayEngine(ray)
    assert told.value.cause == "ImportError: libray is broken"
