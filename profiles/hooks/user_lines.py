"""Which line of the user's program is running: the innermost frame that is neither a library's nor ours."""

import os
import sys
import sysconfig
import tempfile
from functools import cache
from types import CodeType, FrameType

from advisor.profiles.facts.observed import Location

LIBRARIES = (*(sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")), "<")
HERE = os.path.join(os.path.dirname(__file__), "")
TUNERS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "tuners", "")


def user_location(frame: FrameType | None = None, *, beyond_us: bool = True) -> Location | None:
    """The innermost place of the user's, from ``frame`` outwards; from the caller on without one.

    Args:
        frame: Where to begin.
        beyond_us: Whether to look behind frames of ours, which stand between the program and what it calls.
            Else only what we called ourselves is looked at.

    Returns:
        ``None`` where no frame is the user's.
    """
    found = user_frame(sys._getframe(1) if frame is None else frame, beyond_us=beyond_us)
    return None if found is None else place_of(found)


def user_frame(frame: FrameType | None, *, beyond_us: bool = True) -> FrameType | None:
    """The frame of the place that ``user_location`` returns."""
    while frame is not None:
        if is_ours(frame):
            if not beyond_us:
                return None
        elif not _of_a_library(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


def place_of(frame: FrameType) -> Location:
    """Where a frame is: at the first line of its function while Python runs what belongs to no line."""
    code = frame.f_code
    return Location(code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_name)


def defined_at(function: object) -> Location | None:
    """The first line of a function of the user's; ``None`` of a library's, or of what is not Python."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or _of_a_library(code.co_filename):
        return None
    return Location(code.co_filename, code.co_firstlineno, code.co_name)


def is_ours(frame: FrameType) -> bool:
    """Whether the frame runs code of this package, some of which is ``__main__`` or has other globals."""
    name = str(frame.f_globals.get("__name__", ""))
    return name.startswith("advisor.") or frame.f_code.co_filename.startswith((HERE, TUNERS))


@cache
def _of_a_library(file: str) -> bool:
    """Whether a library holds the file, or wrote it into the temporary folder as PyTorch Geometric does.

    Cells of notebooks lie there, too, and so may the program itself: what Python would import from the
    file's folder is the user's.
    """
    if file.startswith(LIBRARIES):
        return True
    if not file.startswith(os.path.join(tempfile.gettempdir(), "")) or "ipykernel_" in file:
        return False
    folders = set(map(os.path.abspath, sys.path))
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main:
        folders.add(os.path.dirname(os.path.abspath(main)))
    return not any(file.startswith(os.path.join(folder, "")) for folder in folders)
