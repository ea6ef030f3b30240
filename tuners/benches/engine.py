"""What an engine offers: the nodes there are, and on each a process to which lines of text can be sent.

An engine places processes; it knows nothing of programs, configurations or measurements.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class BenchLost(Exception):
    """A process on a node is gone or no longer heard of; the text says why."""


@dataclass(frozen=True)
class Node:
    """One machine.

    Attributes:
        name: As the engine calls it.
        cpus: That processes may use there.
        gpus: The same of devices.
        here: The tuner itself runs on it, and is its bench.
    """

    name: str
    cpus: int
    gpus: int = 0
    here: bool = False


class Line(Protocol):
    """A duplex of lines of text to one process, which has a node to itself."""

    node: str

    def send(self, line: str) -> None:
        """Send one line, which holds no line break.

        Raises:
            BenchLost: The process is gone.
        """

    def receive(self, timeout_s: float) -> str | None:
        """The next line; ``None`` where none has come within ``timeout_s`` seconds, which may be 0.

        Raises:
            BenchLost: The process is gone, and all lines that it sent were received.
        """

    def close(self) -> None:
        """End the process and everything below it; nothing happens the second time."""


class Engine(Protocol):
    """Places processes on nodes."""

    name: str  # ray, slurm, subprocess

    def nodes(self) -> list[Node]:
        """All that there are, in an order that stays.

        Raises:
            EnvironmentProblem: There is no cluster, or it cannot be asked.
        """

    def open(self, node: Node, command: Sequence[str]) -> Line:
        """Start a command on a node, which it has to itself until the line is closed.

        Its input and output are the line; what it writes to its standard error is for a log.

        Raises:
            BenchLost: It could not be started.
        """

    def close(self) -> None:
        """Close all lines, and what the engine keeps itself; nothing happens the second time."""
