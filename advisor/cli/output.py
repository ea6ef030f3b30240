"""Where text goes: results to stdout, everything else to stderr; a closed pipe ends neither work nor code."""

import os
import shutil
import signal
import sys
from typing import TextIO

from advisor.base.errors import EnvironmentProblem, clean
from advisor.base.signals import received_signal

RED, YELLOW, PLAIN = "\x1b[1;31m", "\x1b[1;33m", "\x1b[0m"


def prepare_streams() -> None:
    """Let every text be written: what the encoding lacks is shown as an escape."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # a stream put in its place may have none
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def write(content: str) -> None:
    """Write a result to stdout.

    Raises:
        EnvironmentProblem: It cannot be written, for any reason but a closed pipe or terminal.
    """
    try:
        sys.stdout.write(content)
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)
    except OSError as error:
        discard(sys.stdout)
        if received_signal() == signal.SIGHUP:  # the terminal was closed, which is why we end
            return
        raise EnvironmentProblem(
            "cannot write to stdout", cause=clean(os.strerror(error.errno or 0))
        ) from None


def tell(content: str) -> None:
    """Write a line to stderr; one that cannot be written is lost."""
    try:
        sys.stderr.write(content + "\n")
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def warn(message: str, hint: str | None = None, *, no_color: bool = False) -> None:
    """Tell about something that does not stop the work."""
    label = paint("warning:", YELLOW, sys.stderr, no_color=no_color)
    lines = [f"{label} {clean(message, 500)}", *([f"  hint: {clean(hint, 500)}"] if hint else [])]
    tell("\n".join(lines))


def paint(word: str, colour: str, stream: TextIO, *, no_color: bool) -> str:
    """The word in colour where that is wanted and can be seen."""
    return f"{colour}{word}{PLAIN}" if has_colour(stream, no_color=no_color) else word


def has_colour(stream: TextIO, *, no_color: bool) -> bool:
    """Whether colour may be used: a terminal, or ``FORCE_COLOR``, and nothing that speaks against it."""
    if no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty() or bool(os.environ.get("FORCE_COLOR"))


def width() -> int:
    """Columns of the terminal, 80 when unknown."""
    return max(20, shutil.get_terminal_size((80, 24)).columns)


def discard(stream: TextIO) -> None:
    """Let later writes to a broken stream, the one at exit included, go nowhere."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
