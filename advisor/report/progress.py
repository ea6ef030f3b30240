"""Progress: plain lines for logs and pipes, a block that is drawn again for notebooks and terminals."""

import os
import shutil
import sys
import time
import uuid
from collections.abc import Sequence
from typing import Protocol, Self, TextIO

from advisor.base.durations import write_duration
from advisor.base.errors import clean
from advisor.base.settings import Clock

LINE_EVERY_S = 30.0  # often enough to see that a run goes on, seldom enough to read its log
REDRAW_EVERY_S = 1.0
STAGES = 6  # that stay to be seen in a notebook
MAX_LINE = 500
PHASES = {"start": "starting the program", "compile": "compiling", "steps": "measuring"}


class PlainProgress:
    """A line when a stage begins, and below it one every 30 s at most: what is tried or waited for.

    Args:
        stream: Where lines go; one that is closed is written to no more.
        quiet: Only warnings are written.
        clock: Seconds from any point.
    """

    def __init__(self, stream: TextIO, *, quiet: bool = False, clock: Clock = time.monotonic) -> None:
        self._stream: TextIO | None = stream
        self._quiet = quiet
        self._clock = clock
        self._last = float("-inf")  # when a line was written
        self._began = clock()  # of the stage, part or trial
        self._pending = self._current = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        """Nothing is left to tidy up."""

    def begin(self, text: str) -> None:
        """What is about to happen, and its limit."""
        self.say(text)

    def say(self, text: str) -> None:
        """A stage has begun or ended."""
        self._pending = self._current = ""
        self._began = self._clock()
        if not self._quiet:
            self._write(text)

    def part(self, text: str) -> None:
        """A part of the stage begins; told when the last line is old enough."""
        self._pending = self._current = text
        self._began = self._clock()
        self._tell_seldom()

    def trial(self, number: int, text: str, best: str, left_s: float) -> None:
        """A trial begins; told when the last line is old enough."""
        self.part(_trial_line(number, text, best, left_s))
        self._current = f"trial {number}"

    def waiting(self, what: str, seconds: float) -> None:
        """Still waiting; told when the last line is old enough."""
        if what == "steps":  # one slot follows another: what counts is how long the stage takes
            seconds = max(seconds, self._clock() - self._began)
        doing = f"{PHASES.get(what, what)}, {write_duration(seconds)} so far"
        self._tell_seldom(f"{self._current}: {doing}" if self._current else doing)

    def warn(self, text: str) -> None:
        """Something changes the meaning of the result; said even when quiet."""
        self._write(f"warning: {text}")

    def _tell_seldom(self, text: str = "") -> None:
        """Write what began last and is not told yet, else the text, if the last line is old enough."""
        if self._quiet or self._clock() - self._last < LINE_EVERY_S:
            return
        if self._pending or text:
            self._write(self._pending or text)
            self._pending = ""

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(clean(text, MAX_LINE) + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # closed at the other end: the work goes on unseen
            self._stream = None
        self._last = self._clock()


class Screen(Protocol):
    """Where a block is drawn again and again."""

    def draw(self, kept: Sequence[str], now: str) -> None:
        """Show what was said so far, and what happens now."""


class LiveProgress:
    """What happens now, drawn again at most once a second; at the end only what was said remains.

    Args:
        screen: Where it is drawn.
        clock: Seconds from any point.
    """

    def __init__(self, screen: Screen, *, clock: Clock = time.monotonic) -> None:
        self._screen = screen
        self._clock = clock
        self._drawn = float("-inf")
        self._kept: list[str] = []
        self._part = self._doing = ""
        self._tried = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        """Draw what nothing more will follow."""
        self._screen.draw(self._kept, "")

    def begin(self, text: str) -> None:
        """What is about to happen, and its limit."""
        self.say(text)

    def say(self, text: str) -> None:
        """A stage has begun or ended."""
        self._part = self._doing = ""
        self._keep(text)

    def part(self, text: str) -> None:
        """A part of the stage begins."""
        self._part, self._doing = text, ""
        self._draw()

    def trial(self, number: int, text: str, best: str, left_s: float) -> None:
        """A trial begins."""
        self._tried = number
        self.part(_trial_line(number, text, best, left_s))

    def waiting(self, what: str, seconds: float) -> None:
        """Still waiting."""
        kept = f" and keeps {self._tried} trials" if self._tried else ""
        doing = f"{PHASES.get(what, what)}, {write_duration(seconds)} so far; an interrupt stops{kept}"
        self._doing = clean(doing, MAX_LINE)
        self._draw()

    def warn(self, text: str) -> None:
        """Something changes the meaning of the result."""
        self._keep(f"warning: {text}")

    def _keep(self, text: str) -> None:
        self._kept.append(clean(text, MAX_LINE))
        self._draw()

    def _draw(self) -> None:
        now = self._clock()
        if now - self._drawn < REDRAW_EVERY_S:
            return
        self._drawn = now
        self._screen.draw(
            self._kept, "\n".join(clean(part, MAX_LINE) for part in (self._part, self._doing) if part)
        )


def _trial_line(number: int, text: str, best: str, left_s: float) -> str:
    so_far = f"; best so far {best}" if best else ""
    return f"trial {number}: {text}{so_far}; {write_duration(left_s)} left"


class NotebookScreen:
    """One display of a Jupyter kernel that is updated in place: plain text."""

    def __init__(self) -> None:
        self._transient = {"display_id": f"advisor-{uuid.uuid4().hex}"}
        self._shown = ""

    def draw(self, kept: Sequence[str], now: str) -> None:
        """Show the first line, the latest stages and all warnings."""
        from IPython.display import publish_display_data

        latest = {*range(1), *range(len(kept) - STAGES, len(kept))}
        lines = [line for at, line in enumerate(kept) if at in latest or line.startswith("warning: ")]
        text = "\n".join([*lines, now] if now else lines)
        if text != self._shown:
            publish_display_data({"text/plain": text}, transient=self._transient, update=bool(self._shown))
            self._shown = text


class TerminalScreen:
    """Lines on a terminal; below them one that is written over.

    Args:
        stream: The terminal; once it is closed nothing is written any more.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream
        self._written = 0

    def draw(self, kept: Sequence[str], now: str) -> None:
        """Write the new lines, and over the last one."""
        if self._stream is None:
            return
        lines = "".join(f"{line}\n" for line in kept[self._written :])
        status = now.replace("\n", "; ")[: shutil.get_terminal_size().columns - 1]
        try:
            self._stream.write(f"\r\x1b[2K{lines}{status}")
            self._stream.flush()
        except (OSError, ValueError):  # closed at the other end: the work goes on unseen
            self._stream = None
        self._written = len(kept)


def progress_here(*, quiet: bool = False) -> PlainProgress | LiveProgress:
    """What fits the place of a call from Python: a notebook, a terminal, a log."""
    if quiet:
        return PlainProgress(sys.stderr, quiet=True)
    if in_notebook():
        return LiveProgress(NotebookScreen())
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return LiveProgress(TerminalScreen(sys.stderr))
    return PlainProgress(sys.stderr)


def in_notebook() -> bool:
    """Whether this is the kernel of a front end that shows displays."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
