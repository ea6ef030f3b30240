"""A bench on another node, as the tuner sees it: one question at a time, and whether it is still heard of."""

from collections.abc import Callable
from dataclasses import dataclass, field

from advisor.tuners.benches.engine import BenchLost, Line
from advisor.tuners.benches.messages import (
    Answer,
    Close,
    Learnt,
    NotMeasured,
    NotOpened,
    NotUnderstood,
    Opened,
    Paired,
    Ping,
    Raced,
    Removed,
    Said,
    understood,
    written,
)

PING_S = 10.0  # of silence, after which a busy bench is asked whether it is there
SILENT_S = 60.0  # of silence, after which it counts as lost: a slurmstepd that is gone stays unseen for 90 s


@dataclass
class RemoteBench:
    """A process on a node that measures what it is asked.

    Attributes:
        line: To it.
        clock: Seconds, monotonic.
        opened: What it said of itself; ``None`` before.
        left_out: Why it is not used; empty while it is.
        ran: Measurements that counted.
        busy_s: Seconds that it measured.
        idle_s: Seconds that it had nothing to measure, between the first and the last time that it had.
        key: Of what it measures now; ``None`` where it is idle.
    """

    line: Line
    clock: Callable[[], float]
    opened: Opened | None = None
    left_out: str = ""
    ran: int = 0
    busy_s: float = 0.0
    idle_s: float = 0.0
    key: int | None = None
    _heard: float = field(init=False)
    _pinged: float = field(init=False)
    _idle_since: float | None = None

    def __post_init__(self) -> None:
        self._heard = self._pinged = self.clock()

    @property
    def node(self) -> str:
        """Where it runs."""
        return self.line.node

    @property
    def usual_s(self) -> float:
        """Seconds of a measurement, on average; a start at least."""
        start_s = 0.0 if self.opened is None else self.opened.startup_s
        return max(start_s, self.busy_s / self.ran if self.ran else 0.0)

    @property
    def idle(self) -> bool:
        """Whether it can be asked something."""
        return not self.left_out and self.opened is not None and self.key is None

    def say(self, said: Said) -> None:
        """Say something that nothing answers by key.

        Raises:
            BenchLost: It is gone.
        """
        self.line.send(written(said))
        self._heard = max(self._heard, self.clock() - PING_S)

    def ask(self, key: int, said: Said) -> None:
        """Have something measured.

        Raises:
            BenchLost: It is gone.
        """
        self._heard = self._pinged = self.clock()
        self.line.send(written(said))
        self.key = key
        if self._idle_since is not None:
            self.idle_s += self.clock() - self._idle_since

    def hear(self, timeout_s: float) -> Opened | NotOpened | Answer | None:
        """What it answered, if anything came within ``timeout_s`` seconds.

        Raises:
            BenchLost: It is gone, silent, or does not speak this language.
        """
        line = self.line.receive(timeout_s)
        now = self.clock()
        if line is None:
            if now - self._heard > SILENT_S:
                raise BenchLost(f"nothing was heard of it for {SILENT_S:.0f} s")
            if now - max(self._heard, self._pinged) > PING_S:
                self._pinged = now
                self.line.send(written(Ping()))
            return None
        self._heard = now
        try:
            said = understood(line)
        except NotUnderstood as error:
            raise BenchLost(f"it sent what is {error}"[:200]) from None
        if isinstance(said, Raced | Paired | Removed | Learnt | NotMeasured):
            if said.key != self.key:
                raise BenchLost("it answered what it was not asked")
            self.key = None
            self._idle_since = now
            self.ran += 1
            self.busy_s += said.seconds
            return said
        return said if isinstance(said, Opened | NotOpened) else None

    def leave_out(self, why: str) -> None:
        """Use it no more, and end it."""
        self.left_out, self.key = self.left_out or why, None
        self.close()

    def close(self) -> None:
        """End it."""
        try:
            self.line.send(written(Close()))
        except BenchLost:
            self.left_out = self.left_out or "lost"
        self.line.close()
