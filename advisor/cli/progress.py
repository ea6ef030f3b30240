"""Progress in a terminal: one block, redrawn at most four times a second, by nobody but the run itself."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from advisor.base.durations import write_duration
from advisor.base.errors import clean
from advisor.base.settings import Clock
from advisor.cli.output import discard
from advisor.report.progress import PlainProgress

if TYPE_CHECKING:
    from rich.console import Console

REDRAW_EVERY_S = 0.25
MAX_LINE = 500


class TerminalProgress:
    """Stages as lines, and below them what happens now.

    There is no thread: a measurement must not be disturbed, so the block changes only when it is told to.

    Args:
        console: The terminal, for stderr.
        clock: Seconds from any point.
    """

    def __init__(self, console: "Console", *, clock: Clock = time.monotonic) -> None:
        from rich.live import Live

        self._console = console
        self._clock = clock
        self._live: Live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._drawn = float("-inf")
        self._trial = self._best = self._waiting = ""
        self._count = 0
        self._end = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *ending: object) -> None:
        with _unless_closed():
            self._live.stop()

    def begin(self, text: str) -> None:
        """What is about to happen, and its limit."""
        self.say(text)

    def say(self, text: str) -> None:
        """A stage has begun or ended."""
        self._waiting = ""
        self._print(text)

    def part(self, text: str) -> None:
        """A part of the stage begins."""
        self.say(text)

    def trial(self, number: int, text: str, best: str, left_s: float) -> None:
        """A trial begins."""
        self._count = number
        self._trial, self._best, self._waiting = text, best, ""
        self._end = self._clock() + left_s
        self._draw()

    def waiting(self, what: str, seconds: float) -> None:
        """Still waiting."""
        kept = f" and keeps {self._count} trials" if self._count else ""
        self._waiting = f"{what}, {write_duration(seconds)} so far; Ctrl-C stops{kept}"
        self._draw()

    def warn(self, text: str) -> None:
        """Something changes the meaning of the result."""
        self._print(f"warning: {text}")

    def _print(self, text: str) -> None:
        from rich.text import Text

        with _unless_closed():
            self._console.print(Text(clean(text, MAX_LINE)))

    def _draw(self) -> None:
        now = self._clock()
        if now - self._drawn < REDRAW_EVERY_S:
            return
        from rich.text import Text

        self._drawn = now
        lines = []
        if self._count:
            lines.append(f"trial {self._count}: {self._trial}")
            lines.append(f"best so far {self._best or 'none'}; {write_duration(self._end - now)} left")
        if self._waiting:
            lines.append(self._waiting)
        shown = [Text(clean(line, MAX_LINE), no_wrap=True, overflow="ellipsis") for line in lines]
        with _unless_closed():
            self._live.update(Text("\n").join(shown), refresh=True)


@contextmanager
def _unless_closed() -> Iterator[None]:
    """What is drawn on a terminal that was closed is lost, and so is what follows."""
    try:
        yield
    except OSError:
        discard(sys.stderr)


def progress_for(*, quiet: bool, no_color: bool) -> PlainProgress | TerminalProgress:
    """A redrawn block on a terminal that can do it, else plain lines."""
    from rich.console import Console

    if quiet or not sys.stderr.isatty():
        return PlainProgress(sys.stderr, quiet=quiet)
    console = Console(stderr=True, no_color=no_color or None, highlight=False, markup=False)
    if console.is_dumb_terminal or not console.is_terminal:
        return PlainProgress(sys.stderr)
    return TerminalProgress(console)
