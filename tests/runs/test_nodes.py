"""The nodes of an engine, asked and told apart by kind."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from builders import A_GPU, a_machine

from advisor.profiles.facts.machine import read_machine
from advisor.runs.nodes import SeenNode, checks_of, look_at
from advisor.tuners.benches.engine import BenchLost, Line, Node
from advisor.tuners.benches.pipe import PipeLine
from advisor.tuners.benches.relayed_line import RelayedLine

RELAY = [sys.executable, "-P", "-m", "advisor.tuners.benches.relay"]

pytestmark = pytest.mark.usefixtures("no_process_remains")


class Cluster:
    """Three nodes on this machine, of which the last cannot be reached."""

    name = "ray"

    def __init__(self, folder: Path) -> None:
        self.folder, self.closed = folder, False

    def nodes(self) -> list[Node]:
        return [Node("n1", 2, here=True), Node("n2", 2), Node("n3", 2)]

    def open(self, node: Node, command: Sequence[str]) -> Line:
        if node.name == "n3":
            raise BenchLost("its CPUs are taken")
        return RelayedLine(PipeLine(node.name, RELAY, end_s=20.0), command, self.folder / "log")

    def close(self) -> None:
        self.closed = True


def seen(name: str, here: bool = False, **changes: object) -> SeenNode:
    """A node with a machine of the builders."""
    return SeenNode(name, here, json.loads(json.dumps(a_machine(**changes).as_json())))


def test_each_other_node_is_asked_by_a_process_of_its_own(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    here, other, lost = look_at(cluster, read_machine())
    assert cluster.closed
    assert (here.name, here.here, other.name, other.here) == ("n1", True, "n2", False)
    assert here.kind == other.kind
    assert other.machine["cpus_allowed"] == read_machine().cpus_allowed
    assert (lost.name, lost.machine, lost.why) == ("n3", {}, "its CPUs are taken")


def test_those_like_the_tuners_own_are_used_and_the_others_are_named_with_the_reason() -> None:
    nodes = [
        seen("n1", here=True), seen("n2"), seen("n3", gpus=(A_GPU,)), seen("n4", gpus=(A_GPU,)),
        seen("n5", gpus=(A_GPU,)), seen("n6", python="3.12.1"), SeenNode("n7", False, {}, "it is down"),
    ]  # fmt: skip
    used, gpus, python, lost = checks_of(nodes)
    assert (used.state, used.seen[:22]) == ("ok", "2: n1 (here), n2; each")
    assert (gpus.state, gpus.seen[:13]) == ("limit", "3: n3, n4, n5")
    assert A_GPU.name in gpus.seen and "they are more" in gpus.advice
    assert (python.state, python.seen[:5]) == ("note", "1: n6")
    assert (lost.name, lost.state, lost.seen) == ("node n7", "limit", "it is down")
