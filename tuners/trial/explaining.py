"""Why a program failed under a setting, from its own exception and from what was seen of it."""

import re
from dataclasses import replace

from advisor.profiles.derived.copies import handle_of
from advisor.profiles.derived.trends import KEPT, grower, trends
from advisor.profiles.facts.profile import Profile
from advisor.tuners.supervision.failures import Failure

EXHAUSTED = {
    "open_files": re.compile(r"Too many open files|received 0 items of ancdata"),
    "threads": re.compile(r"can't start new thread|Cannot create thread|thread creation failed"),
    "shared_memory": re.compile(r"unable to allocate shared memory|unable to (write to|mmap) file </torch_"),
    "written": re.compile(r"No space left on device|Disk quota exceeded"),
}
"""What the system, Python and torch say where one of the kinds of ``Readings`` has come to its end."""
BROKEN = re.compile(
    r"BadZipFile|Bad CRC-32|Bad magic number|zlib\.error|Error -3 while decompressing|bad object header"
    r"|ReadError|invalid header|lost synchronization|wrong B-tree signature|EOFError|database disk image"
)
"""What readers of archives, HDF5 and databases say where another process has moved the position."""


def explained(failure: Failure, seen: Profile) -> Failure:
    """The failure with what the facts say of its cause, where they do.

    Args:
        failure: What the exception says.
        seen: Of the process that failed.
    """
    why = _exhausted(failure, seen) or _broken(failure, seen)
    return failure if why is None else replace(failure, message=f"{failure.message.splitlines()[0]}; {why}")


def _exhausted(failure: Failure, seen: Profile) -> str | None:
    said = f"{failure.message} {failure.trace}"
    kind = next((name for name, words in EXHAUSTED.items() if words.search(said)), None)
    found = trends(seen).get(kind or "")
    if found is None:
        return None
    what = found.kind.replace("_", " ")
    limit = "" if found.limit is None else f" of {found.limit:,.0f}"
    why = f"{what} rose by {found.per_step:.3g} in each step, to {found.last:,.0f}{limit}"
    variable = grower(seen, found.per_step)
    if variable is None:
        return why
    place = "" if variable.location is None else f" ({variable.location})"
    copies = ": keep `.clone()` of each" if variable.holds in KEPT else ""
    return f"{why}, as `{variable.name}`{place} keeps what each step adds{copies}"


def _broken(failure: Failure, seen: Profile) -> str | None:
    loader = seen.loader
    handle = None if loader is None else handle_of(loader)
    if handle is None or not BROKEN.search(f"{failure.message} {failure.trace}"):
        return None
    place = "" if handle.location is None else f" ({handle.location})"
    return (
        f"`{handle.name}`{place} was opened before the workers were started, which share its position: open "
        "it in each worker"
    )
