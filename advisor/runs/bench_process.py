"""The process of a bench: ``python -m advisor.runs.bench_process``, with messages on its input and output.

What the target writes never mixes in: both are taken away before anything else runs, and the target's
output goes to its log. It ends with its input, so also with the tuner.
"""

import os
import select
import sys
from dataclasses import dataclass, field

from advisor.base.signals import StopRequests
from advisor.runs.serving_bench import ServedBench
from advisor.stages.launching import Caller
from advisor.tuners.benches.messages import (
    Close,
    NotOpened,
    NotUnderstood,
    Open,
    Ping,
    Pong,
    Said,
    understood,
    written,
)
from advisor.tuners.launching.session import Interrupted

CHUNK = 1 << 16  # bytes read at a time


@dataclass
class Pipe:
    """Messages over two descriptors.

    Attributes:
        ended: The tuner closed the line, or is gone.
    """

    source: int
    sink: int
    ended: bool = False
    _buffer: bytearray = field(default_factory=bytearray)
    _kept: list[Said] = field(default_factory=list)

    def say(self, said: Said) -> None:
        """Send one message."""
        left = memoryview(written(said).encode() + b"\n")
        try:
            while left:
                left = left[os.write(self.sink, left) :]
        except BrokenPipeError:
            self.ended = True

    def next(self) -> Said | None:
        """The next message that is not a ping; ``None`` once the line has ended."""
        while not self._kept and not self.ended:
            self.look(None)
        return self._kept.pop(0) if self._kept and not self.ended else None

    def look(self, timeout_s: float | None) -> None:
        """Take what has come, and answer pings; ``ended`` if it was the end."""
        if self.ended or not select.select([self.source], [], [], timeout_s)[0]:
            return
        part = os.read(self.source, CHUNK)
        self.ended = not part
        self._buffer += part
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            said = understood(line.decode(errors="replace"))
            match said:
                case Ping():
                    self.say(Pong())
                case Close():
                    self.ended = True
                case _:
                    self._kept.append(said)


class Quiet:
    """A ``Progress`` of which the tuner's user sees nothing; what is said goes to the engine's log."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def begin(self, text: str) -> None:
        """As of ``Progress``."""
        self.say(text)

    def say(self, text: str) -> None:
        """As of ``Progress``."""
        print(text, file=sys.stderr, flush=True)

    def part(self, text: str) -> None:
        """As of ``Progress``."""
        self.say(text)

    def trial(self, number: int, text: str, best: str, left_s: float) -> None:
        """As of ``Progress``."""

    def waiting(self, what: str, seconds: float) -> None:
        """As of ``Progress``; the moment in which the tuner is listened to.

        Raises:
            Interrupted: It is gone, or wants no more.
        """
        self._pipe.look(0.0)
        if self._pipe.ended:
            raise Interrupted

    def warn(self, text: str) -> None:
        """As of ``Progress``; warnings go to the tuner as well."""
        self.say(f"warning: {text}")


def _entered(said: Said) -> NotOpened | None:
    """Go to the working directory of a target that is to be opened."""
    if isinstance(said, Open):
        try:
            os.chdir(said.folder)
        except OSError as error:
            return NotOpened(f"{said.folder} cannot be entered: {error.strerror}")
    return None


def main() -> int:
    """Serve until the line ends."""
    pipe = Pipe(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    with StopRequests() as stop:
        bench = ServedBench(Caller(Quiet(pipe), stop))
        try:
            while (said := pipe.next()) is not None:
                answer = _entered(said) or bench.answer(said)
                if answer is not None:
                    pipe.say(answer)
        except Interrupted:
            return 0
        except NotUnderstood as error:
            print(error, file=sys.stderr)
            return 2
        finally:
            bench.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
