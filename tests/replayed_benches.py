"""Benches on paper: each replays the program on a node of its own, whose time runs beside the tuner's.

What is sent and answered goes through the same lines of text as between real processes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from remembered_progress import Told
from replayed_program import Program
from replayed_sessions import ReplayingLauncher

from advisor.base.settings import Settings
from advisor.base.signals import StopRequests
from advisor.runs.serving_bench import ServedBench
from advisor.stages.launching import Caller
from advisor.tuners.benches.engine import BenchLost, Node
from advisor.tuners.benches.messages import Close, Ping, Pong, understood, written
from advisor.tuners.trial.spec import Target

TICK_S = 1.0  # of the tuner's clock, after which it listens to benches while a process of its own starts


class ReplayedLine:
    """A bench whose answers come when its node is done; lost at a time of the tuner's clock, if given."""

    def __init__(self, node: str, program: Program, folder: Path, here: ReplayingLauncher) -> None:
        self.node = node
        self.lost_at: float | None = None
        self.asked: list[str] = []
        self.asked_at: list[float] = []  # of the tuner's clock
        self.started: list[int] = []  # processes, once each was answered
        self.launcher = ReplayingLauncher(Target("module", "train"), folder, program=program)
        self._here = here
        self._answers: list[tuple[float, str]] = []
        self._closed = False
        caller = Caller(Told(), StopRequests())

        def launching(settings: Settings, trials: Path, caller: Caller) -> ReplayingLauncher:
            self.launcher.waiting = caller.waiting
            return self.launcher

        self._bench = ServedBench(caller, launching, lambda: self.launcher.now)

    def send(self, line: str) -> None:
        self._look()
        self.launcher.now = max(self.launcher.now, self._here.now)
        said = understood(line)
        if isinstance(said, Ping):
            self._answers.insert(0, (self._here.now, written(Pong())))
            return
        if isinstance(said, Close):
            return
        self.asked.append(type(said).__name__)
        self.asked_at.append(self._here.now)
        answer = self._bench.answer(said)
        self.started.append(self.launcher.launches)
        if answer is not None:
            self._answers.append((self.launcher.now, written(answer)))

    def receive(self, timeout_s: float) -> str | None:
        self._look()
        if self._answers and self._answers[0][0] <= self._here.now + timeout_s:
            ready, line = self._answers.pop(0)
            self._here.now = max(self._here.now, ready)
            return line
        self._here.now += timeout_s
        return None

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._bench.close()

    def _look(self) -> None:
        if self._closed or (self.lost_at is not None and self._here.now >= self.lost_at):
            raise BenchLost("its node is gone")


@dataclass
class ReplayedEngine:
    """Nodes on paper beside the tuner's own.

    Attributes:
        programs: What runs on each, by the node's name.
        folder: For what they write.
        lost_at: When a node is lost, by its name and the tuner's clock.
        here: The tuner's own launcher; set before the run begins.
    """

    programs: Mapping[str, Program]
    folder: Path
    lost_at: Mapping[str, float] = field(default_factory=dict)
    here: ReplayingLauncher | None = None
    lines: dict[str, ReplayedLine] = field(default_factory=dict)
    name: str = "replayed"

    def nodes(self) -> list[Node]:
        return [Node("a", 1, here=True), *(Node(name, 1) for name in self.programs)]

    def open(self, node: Node, command: Sequence[str]) -> ReplayedLine:
        assert self.here is not None
        self.here.tick_s = TICK_S
        folder = self.folder / node.name
        folder.mkdir()
        line = ReplayedLine(node.name, self.programs[node.name], folder, self.here)
        line.lost_at = self.lost_at.get(node.name)
        self.lines[node.name] = line
        return line

    def close(self) -> None:
        for line in self.lines.values():
            line.close()
            assert not line.launcher.live, "a process is left on a node"
