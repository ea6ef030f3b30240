"""The end of a line on a node: starts a process there, relays lines, and ends it with everything below it.

An engine runs ``python -P -m advisor.tuners.benches.relay``; the first line that it reads is an ``Order``.
Lines that begin with ``MARK`` are its own, all others those of the process. It ends when its input does: that
is all it sees of a tuner, an engine or a node between that is gone.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

from advisor.tuners.benches.node_environment import environment_on_node
from advisor.tuners.supervision.process_tree import become_subreaper, die_with_parent, kill_tree

MARK = "#"  # no JSON begins with it
BEAT_S = 2.0  # between two signs of life; a wake-up of some 50 us
CHUNK = 1 << 16
LONGEST_ERRORS = 1 << 20  # bytes of the process's standard error that are sent on


@dataclass(frozen=True)
class Order:
    """What to start.

    Attributes:
        command: With an absolute path.
        folder: In which.
        environment: Of the tuner.
    """

    command: list[str]
    folder: str
    environment: dict[str, str]

    def line(self) -> str:
        """As it is sent."""
        return json.dumps(asdict(self))


class Refused(Exception):
    """The process cannot be started on this node; the text says why."""


def main() -> int:
    """Serve one process; 0 once nothing of it is left."""
    become_subreaper()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        first, rest = _first_line()
        if first is not None:
            process = _start(Order(**json.loads(first)))
            _Relay(process, rest).run()
    except Refused as refused:
        _say(f"{MARK}refused {refused}")
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        kill_tree(os.getpid())
    return 0


def _leave(number: int, frame: object) -> None:
    sys.exit(128 + number)


def _first_line() -> tuple[bytes | None, bytes]:
    """The order, and what came behind it; ``None`` where the line ended before."""
    read = b""
    while b"\n" not in read:
        part = os.read(0, CHUNK)
        if not part:
            return None, b""
        read += part
    first, _, rest = read.partition(b"\n")
    return first, rest


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(1, text.replace("\n", " ").encode(errors="replace") + b"\n")


def _start(order: Order) -> "subprocess.Popen[bytes]":
    with contextlib.suppress(
        OSError
    ):  # an engine may have made this process a nicer one; only root takes it back
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    if not os.path.isdir(order.folder):
        raise Refused(f"{order.folder} is not there")
    if not os.access(order.command[0], os.X_OK):
        raise Refused(
            f"{order.command[0]} is not there; the same Python has to lie at the same path on each node"
        )
    own = os.getpid()
    try:
        return subprocess.Popen(
            order.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=order.folder,
            env=environment_on_node(order.environment, os.environ),
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(own),
        )
    except OSError as error:
        raise Refused(f"{order.command[0]}: {error}") from None


class _Relay:
    """Lines in both directions, until the input or the process ends. Nothing blocks but ``poll``."""

    def __init__(self, process: "subprocess.Popen[bytes]", waiting: bytes) -> None:
        assert process.stdin and process.stdout and process.stderr
        self._process = process
        self._to, self._from, self._errors = (
            pipe.fileno() for pipe in (process.stdin, process.stdout, process.stderr)
        )
        self._inward, self._outward = bytearray(waiting), bytearray(f"{MARK}started\n".encode())
        self._partial: dict[int, bytearray] = {self._from: bytearray(), self._errors: bytearray()}
        self._told = 0  # bytes of errors
        for fd in (1, self._to):
            os.set_blocking(fd, False)

    def run(self) -> None:
        """Relay until one side is gone, and say how the process ended."""
        beat = time.monotonic() + BEAT_S
        while self._from in self._partial or self._errors in self._partial:
            ready = self._wait(beat - time.monotonic())
            if 0 in ready and not self._take_orders():
                return
            for fd in [fd for fd in self._partial if fd in ready]:
                self._take(fd)
            if time.monotonic() >= beat:
                beat = time.monotonic() + BEAT_S
                if self._process.poll() is not None and not ready & self._partial.keys():
                    break  # what it left holds its output open
                if not self._outward:
                    self._outward += f"{MARK}\n".encode()
            if not self._flush():
                return
        self._last_words(self._process.wait())

    def _wait(self, timeout_s: float) -> set[int]:
        poll = select.poll()
        for fd in (0, *self._partial):
            poll.register(fd, select.POLLIN)
        if self._outward:
            poll.register(1, select.POLLOUT)
        if self._inward:
            poll.register(self._to, select.POLLOUT)
        return {fd for fd, _ in poll.poll(max(0.0, timeout_s) * 1000)}

    def _take_orders(self) -> bool:
        """Lines for the process; whether the tuner is still there."""
        part = os.read(0, CHUNK)
        self._inward += part
        return bool(part)

    def _take(self, fd: int) -> None:
        """Send on whole lines of the process's output or errors."""
        part = os.read(fd, CHUNK)
        held = self._partial[fd]
        if not part:
            part = b"\n" if held else b""
            del self._partial[fd]
        held += part
        *lines, rest = held.split(b"\n")
        held[:] = rest
        for line in lines:
            if fd == self._from:
                self._outward += line + b"\n"
            elif self._told < LONGEST_ERRORS:
                self._told += len(line)
                self._outward += f"{MARK}error ".encode() + line + b"\n"

    def _flush(self) -> bool:
        """Write what can be written now; whether the tuner is still there."""
        for fd, held in ((1, self._outward), (self._to, self._inward)):
            try:
                while held:
                    del held[: os.write(fd, held[:CHUNK])]
            except BlockingIOError:
                continue
            except OSError:
                if fd == 1:
                    return False
                held.clear()  # the process reads no more; its output will end
        return True

    def _last_words(self, status: int) -> None:
        os.set_blocking(1, True)
        self._outward += f"{MARK}ended {status}\n".encode()
        self._flush()


if __name__ == "__main__":
    sys.exit(main())
