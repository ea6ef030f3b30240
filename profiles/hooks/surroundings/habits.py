"""What a program does with its own process that a measurement of it should tell."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from advisor.profiles.facts.observed import Habit, Location
from advisor.profiles.hooks.patches import Patch
from advisor.profiles.hooks.surroundings.clock_bound import clock_bound
from advisor.profiles.hooks.user_lines import LIBRARIES, TUNERS, user_location

MOST_FILES = 100  # of the program, that are read
MOST_BYTES = 500_000  # of one of them


class Habits:
    """Notes a changed folder, a handler of SIGTERM, and lines that follow the wall clock."""

    def __init__(self) -> None:
        self._moved: Habit | None = None
        self._read: dict[str, tuple[Habit, ...]] = {}

    def install(self) -> None:
        """Watch from now on, before the first line of the program."""
        Patch(os, "chdir", self._wrap).install()

    def facts(self) -> tuple[Habit, ...]:
        """What was met so far; files that were imported since are read now."""
        found = [*([self._moved] if self._moved else []), *_handler()]
        for file in _own_files():
            if file not in self._read:
                self._read[file] = _by_clock(file)
            found.extend(self._read[file])
        return tuple(found)

    def _wrap(self, original: Callable[[Any], None]) -> Callable[[Any], None]:
        def chdir(path: Any) -> None:
            before = os.getcwd()
            original(path)
            place = user_location(sys._getframe(1), beyond_us=False)
            if place is not None and os.getcwd() != before:
                self._moved = Habit("folder", place, os.fsdecode(path) if not isinstance(path, int) else "")

        return chdir


def _handler() -> list[Habit]:
    code = getattr(signal.getsignal(signal.SIGTERM), "__code__", None)
    if code is None or code.co_filename.startswith((*LIBRARIES, TUNERS)):
        return []
    return [Habit("sigterm", Location(code.co_filename, code.co_firstlineno, code.co_name))]


def _own_files() -> list[str]:
    modules = [each for name, each in list(sys.modules.items()) if name.partition(".")[0] != "advisor"]
    files = [getattr(module, "__file__", None) or "" for module in modules]
    own = [file for file in files if file.endswith(".py") and not file.startswith((*LIBRARIES, TUNERS))]
    return own[:MOST_FILES]


def _by_clock(file: str) -> tuple[Habit, ...]:
    try:
        source = Path(file).read_bytes()[:MOST_BYTES].decode(errors="replace")
    except OSError:
        return ()
    return tuple(Habit(f"clock_{what}", Location(file, line)) for what, line in clock_bound(source))
