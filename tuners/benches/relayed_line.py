"""A line to a process under a relay: silence is noticed, and errors land in a log."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from advisor.base.settings import Clock
from advisor.tuners.benches.engine import BenchLost, Line
from advisor.tuners.benches.node_environment import environment_sent
from advisor.tuners.benches.relay import MARK, Order
from advisor.tuners.supervision.failures import read_tail

SILENT_S = 20.0  # ten signs of life; SLURM itself takes 90 s to notice that a step lost its daemon
TURN_S = 1.0  # between two looks at how long it has been silent
END_S = 20.0  # that a relay may take to end what is below it: it gives 3 s of grace
START_S = 60.0  # until a scheduler has placed a process on a node that is free


class RelayedLine:
    """A ``Line`` over one to a relay, which is told what to start.

    Args:
        line: To the relay.
        command: What it starts, with an absolute path, in the present working directory.
        log: Gets what the process writes to its standard error.
        start_s: Seconds until it must have started.
        clock: Seconds, monotonic.

    Raises:
        BenchLost: It could not be started.
    """

    def __init__(
        self,
        line: Line,
        command: Sequence[str],
        log: Path,
        *,
        start_s: float = START_S,
        clock: Clock = time.monotonic,
    ) -> None:
        self.node = line.node
        self._line, self._log, self._clock = line, log, clock
        self._heard, self._started = clock(), False
        try:
            self.send(Order(list(command), os.getcwd(), environment_sent()).line())
            self._await_start(start_s)
        except BenchLost:
            line.close()
            raise

    def send(self, line: str) -> None:
        """As of ``Line``."""
        try:
            self._line.send(line)
        except BenchLost as lost:
            raise self._with_last_words(str(lost)) from None

    def receive(self, timeout_s: float) -> str | None:
        """As of ``Line``; a process of whose relay nothing is heard for ``SILENT_S`` seconds is lost."""
        until = self._clock() + timeout_s
        while True:
            left = max(0.0, until - self._clock())
            text = self._next(min(left, TURN_S))
            if text is not None and not text.startswith(MARK):
                return text
            if text is not None:
                self._take(text)
            elif self._clock() - self._heard > SILENT_S:
                raise BenchLost(f"nothing was heard of it for {SILENT_S:.0f} s")
            elif left == 0.0:
                return None

    def close(self) -> None:
        """As of ``Line``."""
        self._line.close()

    def _next(self, timeout_s: float) -> str | None:
        try:
            text = self._line.receive(timeout_s)
        except BenchLost as lost:
            raise self._with_last_words(str(lost)) from None
        if text is not None:
            self._heard = self._clock()
        return text

    def _await_start(self, start_s: float) -> None:
        until = self._clock() + start_s
        while not self._started:
            text = self._next(TURN_S)
            if text is not None and text.startswith(MARK):
                self._take(text)
            elif self._clock() >= until:
                raise BenchLost(f"it did not start within {start_s:.0f} s: its CPUs and GPUs may be taken")

    def _take(self, text: str) -> None:
        """A line of the relay's own."""
        word, _, rest = text.removeprefix(MARK).partition(" ")
        if word == "started":
            self._started = True
        elif word == "error":
            with self._log.open("a") as log:
                log.write(rest + "\n")
        elif word == "refused":
            raise BenchLost(rest)
        elif word == "ended":
            status = int(rest)
            raise self._with_last_words(
                f"killed by signal {-status}" if status < 0 else f"it ended with exit status {status}"
            )

    def _with_last_words(self, how: str) -> BenchLost:
        said = read_tail(self._log)
        return BenchLost(f"{how}: {said}" if said else how)
