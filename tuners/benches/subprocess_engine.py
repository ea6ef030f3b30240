"""Benches as processes of this machine, each on CPUs of its own: for tests, and to see what several bring."""

import os
import tempfile
from collections.abc import Sequence

from advisor.tuners.benches.engine import Node
from advisor.tuners.benches.pipe import PipeLine


class SubprocessEngine:
    """An ``Engine`` whose nodes are sets of CPUs.

    Args:
        here: CPUs of the tuner itself, which has to be pinned to them by who started it.
        others: Those of each further bench.
    """

    name = "subprocess"

    def __init__(self, here: Sequence[int], others: Sequence[Sequence[int]]) -> None:
        self._cpus = {f"cpus-{','.join(map(str, each))}": tuple(each) for each in others}
        self._here = Node("here", len(here), here=True)
        self._lines: list[PipeLine] = []
        self._locks = tempfile.TemporaryDirectory(prefix="advisor-benches-")

    def nodes(self) -> list[Node]:
        """As of ``Engine``."""
        return [self._here, *(Node(name, len(cpus)) for name, cpus in self._cpus.items())]

    def open(self, node: Node, command: Sequence[str]) -> PipeLine:
        """As of ``Engine``; locks of devices are for whole machines, so each has a folder of its own."""
        locks = os.path.join(self._locks.name, node.name)
        os.makedirs(locks, mode=0o700, exist_ok=True)
        environment = {**os.environ, "ADVISOR_LOCKS": locks}
        line = PipeLine(node.name, command, environment=environment, cpus=self._cpus[node.name])
        self._lines.append(line)
        return line

    def close(self) -> None:
        """As of ``Engine``."""
        for line in self._lines:
            line.close()
        self._locks.cleanup()
