"""Where a process was that did not answer: what ``faulthandler`` wrote of its main thread."""

import re
from pathlib import Path

import advisor
from advisor.profiles.hooks.user_lines import LIBRARIES

FILE = "stacks.txt"
NOT_THEIRS = (*LIBRARIES, str(Path(advisor.__file__).parent))
FRAME = re.compile(r'^  File "([^"]+)", line (\d+) in (.+)$', re.MULTILINE)
MOST_CALLS = 3  # told of the user's, from the outermost on: what is within a model's forward says less


def last_stack(folder: Path) -> list[str]:
    """Innermost place first, as ``file:line``: where the main thread was when it was asked."""
    return [f"{file}:{line}" for file, line, _ in _frames(folder)]


def own_calls(folder: Path) -> str:
    """The same in words, of the user's own lines alone, from the outermost on; empty where none is known."""
    theirs = [frame for frame in reversed(_frames(folder)) if not frame[0].startswith(NOT_THEIRS)]
    return ", ".join(
        f"{Path(file).name}:{line}" + ("" if function == "<module>" else f" in {function}")
        for file, line, function in theirs[:MOST_CALLS]
    )


def _frames(folder: Path) -> list[tuple[str, str, str]]:
    """File, line and function; the last thread that was written is the main one."""
    try:
        text = (folder / FILE).read_text()
    except OSError:
        return []
    return FRAME.findall(text.rpartition("most recent call first")[2])
