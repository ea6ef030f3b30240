"""Which user function each event of a trace ran in, where Python functions were recorded."""

import re
import sys
from functools import cache
from pathlib import Path

import numpy as np

from advisor.base import registry
from advisor.profiles.facts.observed import USER_LINE, Location
from advisor.profiles.traces.nesting import Host
from advisor.profiles.traces.trace import Numbers, Trace, narrow

FUNCTION = re.compile(r"(?P<file>.+\.py)\((?P<line>\d+)\): (?P<function>.*)")
LIBRARY = re.compile(
    r"(^|.*/)(site-packages|dist-packages|python3(\.\d+)?)/"
    r"|(torch|torchvision|torchaudio|transformers|numpy|pandas|scipy|lightning|accelerate|ipykernel|IPython)/"
)


def places_of(trace: Trace, host: Host) -> tuple[Numbers, list[Location]]:
    """For each event of the host the number of the innermost user function around it, or -1.

    Before torch 1.12 no Python functions were recorded, but with each operator the stack that it was called
    from, innermost function first.
    """
    places: list[Location] = []
    number = np.full(len(trace.names), -1, dtype=np.int32)
    functions = trace.of("python_function", "user_annotation")
    for position in np.flatnonzero(np.bincount(trace.name[functions])).tolist():
        name = trace.names[position]
        place = marked_place(name) if name.startswith(USER_LINE) else user_place(name)
        if place is not None:
            number[position] = len(places)
            places.append(place)
    number, names = narrow(number), trace.name[host.rows]
    nearest = host.nearest(functions[host.rows] & (number[names] >= 0))
    found = np.where(nearest >= 0, number[names[nearest]], -1)
    if trace.of("python_function").any():
        return found, places
    stacked = _of_stacks(trace, places)[trace.detail[host.rows]]
    if not (stacked >= 0).any():
        return found, places
    calling = host.nearest(stacked >= 0)
    stacked = np.where(stacked < 0, np.where(calling >= 0, stacked[calling], -1), stacked)
    return np.where(found < 0, stacked, found), places


def _of_stacks(trace: Trace, places: list[Location]) -> Numbers:
    """For each detail, and last for none, the number of the place that its call stack gives, or -1."""
    number = np.full(len(trace.details) + 1, -1, dtype=np.int32)
    known: dict[Location, int] = {}
    for position, detail in enumerate(trace.details):
        stack = detail.get("Call stack")
        frames = stack.split(";") if isinstance(stack, str) else ()
        place = next(filter(None, map(user_place, frames)), None)
        if place is not None:
            at = known.setdefault(place, len(places))
            if at == len(places):
                places.append(place)
            number[position] = at
    return number


def marked_place(name: str) -> Location | None:
    """The place in a range that ``advisor.profiles.hooks.markers`` has put around a call."""
    file, line, function = name.removeprefix(USER_LINE).rsplit(":", 2)
    return Location(file, int(line), function) if line.isdigit() else None


def user_place(name: str) -> Location | None:
    """The place that a Python function's name in a trace gives, if it is in the user's own files.

    torch shortens a file's path by the folder that it was imported from, so libraries have to be told by
    their first folder. The line is that of the function's ``def``.
    """
    found = FUNCTION.fullmatch(name)
    if found is None or not _is_users(found["file"]):
        return None
    return Location(found["file"], int(found["line"]), found["function"])


@cache
def _is_users(file: str) -> bool:
    if file.startswith("<") or LIBRARY.match(file):
        return False
    first = file.split("/", 1)[0].removesuffix(".py")
    if file.startswith("/"):
        return not any(Path(file).is_relative_to(folder) for folder in _own_folders())
    if first in sys.stdlib_module_names or first == "advisor":
        return False
    return not any((folder / file).exists() for folder in _library_folders())


@cache
def _own_folders() -> tuple[Path, ...]:
    package = Path(registry.__file__).parents[1]
    return (package, *{entry.resolve() for entry in package.iterdir() if entry.is_symlink()})


@cache
def _library_folders() -> tuple[Path, ...]:
    return tuple(Path(each) for each in sys.path if "-packages" in each or "/python3" in each)
