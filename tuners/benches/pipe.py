"""A line to a process that was started here, over its standard input and output."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO

from advisor.tuners.benches.engine import BenchLost

END_S = 5.0  # that a process may take to end its own processes, before its group is killed
CHUNK = 1 << 16  # bytes read at a time


class PipeLine:
    """A ``Line`` over the pipes of a child in a session of its own.

    Args:
        node: Where it runs, as the engine calls it.
        command: What is started.
        environment: Of the child; that of this process by default.
        cpus: That it may run on; all by default.
        errors: An open file for its standard error; that of this process by default.
        end_s: Seconds that it may take to end once its input has, before its group is killed.

    Raises:
        BenchLost: It could not be started.
    """

    def __init__(
        self,
        node: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        cpus: Sequence[int] = (),
        errors: IO[str] | None = None,
        end_s: float = END_S,
    ) -> None:
        self.node, self._end_s = node, end_s
        pinned = ["taskset", "-c", ",".join(map(str, cpus)), *command] if cpus else [*command]
        try:
            self._process = subprocess.Popen(
                pinned,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise BenchLost(f"{pinned[0]} could not be started: {error}") from None
        self._buffer = bytearray()
        self._closed = False

    @property
    def pid(self) -> int:
        """Of the child, which leads a process group."""
        return self._process.pid

    def send(self, line: str) -> None:
        """As of ``Line``."""
        pipe = self._process.stdin
        try:
            if pipe is None or self._closed:
                raise BenchLost("its line is closed")
            pipe.write(line.encode() + b"\n")
            pipe.flush()
        except OSError:
            raise BenchLost(self._why()) from None

    def receive(self, timeout_s: float) -> str | None:
        """As of ``Line``."""
        pipe, until = self._process.stdout, time.monotonic() + timeout_s
        if pipe is None or self._closed:
            raise BenchLost("its line is closed")
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            left = max(0.0, until - time.monotonic())
            if not select.select([pipe], [], [], left)[0]:
                return None
            part = os.read(pipe.fileno(), CHUNK)
            if not part:
                raise BenchLost(self._why())
            self._buffer += part
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line.decode(errors="replace")

    def end_input(self) -> None:
        """Ask for its end; what it still says can be received."""
        with contextlib.suppress(OSError):  # it may be gone
            self._process.stdin.close() if self._process.stdin else None

    def close(self) -> None:
        """As of ``Line``: its input ends, by which it ends by itself; else its group is killed."""
        if self._closed:
            return
        self._closed = True
        process = self._process
        self.end_input()
        with contextlib.suppress(subprocess.TimeoutExpired):  # then it is killed
            process.wait(self._end_s)
        with contextlib.suppress(ProcessLookupError):  # nothing of it is left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()

    def _why(self) -> str:
        """How the process ended."""
        try:
            status = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "it closed its output"
        return f"killed by signal {-status}" if status < 0 else f"it ended with exit status {status}"
