"""Benches as actors of a Ray cluster that somebody started, one on each of its nodes."""

import contextlib
import importlib.util
import itertools
import json
import os
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advisor.base.errors import EnvironmentProblem
from advisor.tuners.benches.engine import BenchLost, Node
from advisor.tuners.benches.node_environment import hide_ray
from advisor.tuners.benches.pipe import PipeLine
from advisor.tuners.benches.relayed_line import START_S, RelayedLine
from advisor.tuners.supervision.failures import read_tail

CONNECT_S = 60.0  # for a cluster to answer; Ray itself tries for 30 s or so
CLOSE_S = 25.0  # until a line that is closed is silent: what the client takes at most
INSTALL = "`pip install 'torch-advisor[ray]'`, on every node"
START = (
    "`ray start --head` here, `ray start --address=HOST:6379` on others; or `ray job submit -- advisor ...`"
)
HINTS = {
    "ConnectionError": START,
    "AuthenticationError": "RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH of the cluster",
    "RuntimeError": "the same Ray and the same Python, to the last digit, on each node",
}


class RayLine:
    """A ``Line`` to a relay through the client; made by ``RayEngine``."""

    def __init__(self, node: str, number: int, client: "_Client") -> None:
        self.node = node
        self.heard: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.lost: str | None = None
        self._number, self._client, self._closed = number, client, False

    def send(self, line: str) -> None:
        """As of ``Line``."""
        if self.lost is not None or self._closed:
            raise BenchLost(self.lost or "its line is closed")
        self._client.tell(to=self._number, line=line)

    def receive(self, timeout_s: float) -> str | None:
        """As of ``Line``."""
        if self.lost is not None and self.heard.empty():
            raise BenchLost(self.lost)
        try:
            text = self.heard.get(timeout=timeout_s) if timeout_s > 0 else self.heard.get_nowait()
        except queue.Empty:
            return None
        if text is None:
            raise BenchLost(str(self.lost))
        return text

    def begin_close(self) -> None:
        """Ask for the end."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(BenchLost):  # the client is gone, and Ray ends what it had
                self._client.tell(close=self._number)

    def close(self) -> None:
        """As of ``Line``."""
        self.begin_close()
        until = time.monotonic() + CLOSE_S
        with contextlib.suppress(BenchLost):  # what is awaited
            while time.monotonic() < until:
                self.receive(0.1)


class _Client:
    """The process that is connected to the cluster; one thread deals out what it says."""

    def __init__(self, log: Path) -> None:
        with log.open("w") as errors:
            self._pipe = PipeLine(
                "ray",
                [sys.executable, "-P", "-m", "advisor.tuners.benches.ray_client"],
                errors=errors,
                end_s=CLOSE_S,
            )
        self._log, self._sending, self.lines = log, threading.Lock(), dict[int, RayLine]()
        self._deal = threading.Thread(target=self._dealing, daemon=True)

    def nodes(self) -> list[dict[str, Any]]:
        """What the cluster has."""
        until = time.monotonic() + CONNECT_S
        try:
            while (text := self._pipe.receive(1.0)) is None:
                if time.monotonic() > until:
                    raise BenchLost(f"no answer within {CONNECT_S:.0f} s")
            told: dict[str, Any] = json.loads(text)
        except BenchLost as lost:
            self._pipe.close()
            raise EnvironmentProblem(
                "no Ray cluster can be reached from here", cause=read_tail(self._log) or str(lost),
                hint=START, code="no_ray_cluster",
            ) from None  # fmt: skip
        if "failed" in told:
            self._pipe.close()
            raise EnvironmentProblem(
                "no Ray cluster can be reached from here", cause=told["text"],
                hint=HINTS.get(told["failed"], START), code="no_ray_cluster",
            )  # fmt: skip
        self._deal.start()
        nodes: list[dict[str, Any]] = told["nodes"]
        return nodes

    def tell(self, **what: Any) -> None:
        """Send it an order."""
        with self._sending:
            self._pipe.send(json.dumps(what))

    def close(self) -> None:
        """End it, and with it all actors."""
        self._pipe.end_input()
        if self._deal.is_alive():
            self._deal.join(CLOSE_S)
        self._pipe.close()

    def _dealing(self) -> None:
        try:
            while True:
                text = self._pipe.receive(3600.0)
                if text is not None:
                    self._take(json.loads(text))
        except BenchLost as lost:
            said = read_tail(self._log)
            for line in self.lines.values():
                _lose(line, f"Ray's client is gone, {lost}" + (f": {said}" if said else ""))

    def _take(self, told: dict[str, Any]) -> None:
        if "from" in told:
            self.lines[told["from"]].heard.put(told["line"])
        elif "lost" in told:
            _lose(self.lines[told["lost"]], told["why"])


def _lose(line: RayLine, why: str) -> None:
    if line.lost is None:
        line.lost = why
        line.heard.put(None)


class RayEngine:
    """An ``Engine`` of the nodes of the cluster that this process is in.

    A bench is an actor with all CPUs and GPUs of its node, so that no other work of Ray comes there; those of
    the tuner's own node are held too, where they are free. While it is open, this process's environment is
    without what is Ray's, since a program that is measured shall not see it.

    Args:
        folder: For logs.
        start_s: Seconds that a node may take to start a process: others may have it.

    Raises:
        EnvironmentProblem: Ray is not installed, or no cluster can be reached.
    """

    name = "ray"

    def __init__(self, folder: Path, *, start_s: float = START_S) -> None:
        if importlib.util.find_spec("ray") is None:
            raise EnvironmentProblem(
                "--on ray needs Ray, which is not installed", hint=INSTALL, code="no_ray"
            )
        if os.environ.get("RAY_ADDRESS", "").startswith("ray://"):
            raise EnvironmentProblem(
                "--on ray works within a cluster, not through Ray Client",
                where=f"RAY_ADDRESS={os.environ['RAY_ADDRESS']}",
                hint="`ray job submit -- advisor tune ... --on ray`",
                code="no_ray_cluster",
            )
        self._start_s = start_s
        self._folder, self._opened = folder, itertools.count()
        self._client = _Client(folder / "ray.log")
        told = self._client.nodes()
        hosts = Counter(node["host"] for node in told)
        self._told = {
            node["host"] if hosts[node["host"]] == 1 else f"{node['host']}-{node['address']}": node
            for node in told
        }
        self._hidden = hide_ray(os.environ)
        self._numbers = itertools.count()
        for node in self.nodes():
            if node.here and (node.cpus or node.gpus):
                self._place(node, hold=True)

    def nodes(self) -> list[Node]:
        """As of ``Engine``."""
        return [
            Node(name, int(node["cpus"]), int(node["gpus"]), node["here"])
            for name, node in self._told.items()
        ]

    def open(self, node: Node, command: Sequence[str]) -> RelayedLine:
        """As of ``Engine``."""
        return RelayedLine(
            self._place(node),
            command,
            self._folder / f"{node.name}-{next(self._opened)}.log",
            start_s=self._start_s,
        )

    def close(self) -> None:
        """As of ``Engine``."""
        self._client.close()
        os.environ.update(self._hidden)

    def _place(self, node: Node, hold: bool = False) -> RayLine:
        number = next(self._numbers)
        line = self._client.lines[number] = RayLine(node.name, number, self._client)
        told = self._told[node.name]
        self._client.tell(
            open=told["id"], cpus=told["cpus"], gpus=told["gpus"], hold=hold,
            module="advisor.tuners.benches.relay", path=os.environ.get("PYTHONPATH", ""), **{"as": number},
        )  # fmt: skip
        return line
