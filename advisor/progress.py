"""Progress as plain lines: for logs, pipes and notebooks."""

import time
from typing import Self, TextIO

from advisor.durations import write_duration
from advisor.errors import clean
from advisor.settings import Clock

LINE_EVERY_S = 10.0
MAX_LINE = 500
PHASES = {"start": "starting the program", "compile": "compiling", "steps": "measuring"}


class PlainProgress:
    """One line per trial and stage, at most one per 10 s for trials and waiting; no carriage returns.

    Args:
        stream: Where lines go; one that is closed is written to no more.
        quiet: Only warnings are written.
        clock: Seconds from any point.
    """

    def __init__(self, stream: TextIO, *, quiet: bool = False, clock: Clock = time.monotonic) -> None:
        self._stream: TextIO | None = stream
        self._quiet = quiet
        self._clock = clock
        self._last = float("-inf")
        self._pending: str | None = None
        self._current = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        """Nothing is left to tidy up."""

    def begin(self, text: str) -> None:
        """What is about to happen, and its limit."""
        self.say(text)

    def say(self, text: str) -> None:
        """A stage has begun or ended."""
        self._pending, self._current = None, ""
        if not self._quiet:
            self._write(text)

    def trial(self, number: int, text: str, best: str, left_s: float) -> None:
        """A trial begins; its line waits until the last one is 10 s old."""
        so_far = f"; best so far {best}" if best else ""
        self._pending = f"trial {number}: {text}{so_far}; {write_duration(left_s)} left"
        self._current = f"trial {number}"
        self._say_pending()

    def waiting(self, what: str, seconds: float) -> None:
        """Still waiting; said when nothing else was said for 10 s."""
        if self._say_pending() or not self._is_time():
            return
        doing = f"{PHASES.get(what, what)}, {write_duration(seconds)} so far"
        self._write(f"{self._current}: {doing}" if self._current else doing)

    def warn(self, text: str) -> None:
        """Something changes the meaning of the result; said even when quiet."""
        self._write(f"warning: {text}")

    def _say_pending(self) -> bool:
        if self._pending is None or not self._is_time():
            return False
        text, self._pending = self._pending, None
        self._write(text)
        return True

    def _is_time(self) -> bool:
        return not self._quiet and self._clock() - self._last >= LINE_EVERY_S

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(clean(text, MAX_LINE) + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # closed at the other end: the work goes on unseen
            self._stream = None
        self._last = self._clock()
