"""The nodes on which an engine would place benches: what each is, and which are alike.

On a node it is a program, ``python -m advisor.runs.nodes``, that tells its machine in one line of JSON.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from advisor.profiles.facts.machine import Machine, read_machine
from advisor.result.wording import mib
from advisor.runs.doctor import Check
from advisor.tuners.benches.engine import BenchLost, Engine, Node

COMMAND = ("-P", "-m", "advisor.runs.nodes")
ANSWER_S = 60.0  # for importing what reads a machine, from a network file system at that
AT_ONCE = 16


@dataclass(frozen=True)
class SeenNode:
    """A node that was asked.

    Attributes:
        name: As the engine calls it.
        here: This process runs on it.
        machine: As a result has it; empty where it did not answer.
        why: It did not.
    """

    name: str
    here: bool
    machine: dict[str, Any]
    why: str = ""

    @property
    def kind(self) -> tuple[str, str]:
        """What a node has in common with those that are like it."""
        return str(self.machine.get("fingerprint")), str(self.machine.get("python"))


def look_at(engine: Engine, here: Machine) -> list[SeenNode]:
    """Start a process on each other node, the way benches are started, and have it say what is there.

    Args:
        engine: Is closed at the end.
        here: The machine of this process.

    Raises:
        EnvironmentProblem: The engine has no cluster.
    """
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(lambda node: _seen(engine, node, here), engine.nodes()))
    finally:
        engine.close()


def _seen(engine: Engine, node: Node, here: Machine) -> SeenNode:
    if node.here:
        return SeenNode(node.name, True, here.as_json())
    try:
        line = engine.open(node, [sys.executable, *COMMAND])
        answer = line.receive(ANSWER_S)
        line.close()
    except BenchLost as lost:
        return SeenNode(node.name, False, {}, str(lost))
    if answer is None:
        return SeenNode(node.name, False, {}, f"no answer within {ANSWER_S:.0f} s")
    return SeenNode(node.name, False, json.loads(answer))


def checks_of(nodes: Sequence[SeenNode]) -> list[Check]:
    """What would be used, what would not, and why."""
    kinds: dict[tuple[str, str], list[SeenNode]] = defaultdict(list)
    for node in nodes:
        if node.machine:
            kinds[node.kind].append(node)
    own = next((kind for kind, alike in kinds.items() if any(node.here for node in alike)), None)
    used = kinds.pop(own, []) if own is not None else []
    checks = [Check("nodes used", "ok", _told(used))] if used else []
    for alike in kinds.values():
        more = len(alike) > len(used)
        advice = "unlike the node that the tuner runs on, so not used"
        checks.append(
            Check(
                "other nodes", "limit" if more else "note", _told(alike),
                f"{advice}; they are more: start the tuner on one of them" if more else advice,
            )
        )  # fmt: skip
    return checks + [Check(f"node {node.name}", "limit", node.why) for node in nodes if not node.machine]


def _told(alike: Sequence[SeenNode]) -> str:
    machine = alike[0].machine
    gpus = [gpu["name"] for gpu in machine["gpus"]]
    names = ", ".join(node.name + " (here)" * node.here for node in alike)
    return (
        f"{len(alike)}: {names}; each {machine['cpus_allowed']} CPUs ({machine['cpu_model']}), "
        f"{mib(machine['memory_bytes'])}, {f'{len(gpus)} {gpus[0]}' if gpus else 'no GPU'}, "
        f"Python {machine['python']}, torch {machine['torch']}"
    )


if __name__ == "__main__":
    print(json.dumps(read_machine().as_json()), flush=True)
