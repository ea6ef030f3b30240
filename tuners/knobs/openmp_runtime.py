"""Which library runs the threads of parallel operations."""

import os
import sys
from pathlib import Path

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics

LIBRARY = "libiomp5"
FOLDERS = (
    Path(sys.prefix, "lib"),
    Path("/usr/lib/x86_64-linux-gnu"),
    Path("/usr/lib64"),
    Path("/usr/lib"),
    Path("/usr/local/lib"),
    Path("/opt/intel/oneapi/compiler/latest/lib"),
)
BLOCKTIME_MS = "1"  # a thread spins that long for new work; the library's own 200 ms take a core from others


class OpenmpRuntime(Knob[str]):
    """Replaces GNU's OpenMP library, which torch brings along, by Intel's.

    Both share the work of one operation among threads; they differ in how threads wait for each other.
    `KMP_BLOCKTIME=1` lets Intel's sleep after a millisecond, so that they leave the cores to others. The
    library has to be there, for instance by `pip install intel-openmp`, and is loaded before Python
    starts. Sums can be taken in another order. The effect was not measured.
    """

    semantics = Semantics.ROUNDING
    units = BOTH
    acts_on = ("forward", "backward", "optimizer")

    def values(self) -> list[str]:
        return ["libgomp", LIBRARY]

    def present(self, profile: Profile) -> str:
        return LIBRARY if any(map(_is_wanted, _preloaded())) else "libgomp"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        other = "libgomp" if present == LIBRARY else LIBRARY
        self.check(other, profile)
        return [present, other]

    def check(self, value: str, profile: Profile) -> None:
        if profile.device.startswith("cuda"):
            raise Refused("the model runs on the GPU")
        if not profile.machine.platform.startswith("Linux"):
            raise Refused("libraries are preloaded on Linux only")
        if value == LIBRARY and not any(map(_is_wanted, _preloaded())) and _found() is None:
            raise Refused(f"{LIBRARY}.so was not found; `pip install intel-openmp` brings it")

    def environment(self, value: str) -> dict[str, str]:
        """Variables under which a process loads the library, or does not."""
        others = [entry for entry in _preloaded() if not _is_wanted(entry)]
        if value != LIBRARY:
            return {"LD_PRELOAD": ":".join(others)}
        library = next(filter(_is_wanted, _preloaded()), None) or _found()
        if library is None:
            return {}
        blocktime = os.environ.get("KMP_BLOCKTIME", BLOCKTIME_MS)
        return {"LD_PRELOAD": ":".join([library, *others]), "KMP_BLOCKTIME": blocktime}

    def process(self, value: str) -> None:
        """Look whether the library is there.

        Raises:
            Refused: It is not loaded although it should be, or the other way round.
        """
        if (value == LIBRARY) != _is_loaded():
            state = "not loaded" if value == LIBRARY else "still loaded"
            raise Refused(f"{LIBRARY} is {state} in the process that trains")

    def change(self, value: str) -> Change:
        if value != LIBRARY:
            return Change(f"# start Python without {LIBRARY} in LD_PRELOAD")
        variables = {"LD_PRELOAD": f"{LIBRARY}.so", "KMP_BLOCKTIME": BLOCKTIME_MS}
        return Change(
            f"# before Python starts: pip install intel-openmp, and preload {LIBRARY}.so",
            {**variables, **self.environment(value)},
        )


def _preloaded() -> list[str]:
    """What ``LD_PRELOAD`` names; spaces and colons part its entries."""
    return os.environ.get("LD_PRELOAD", "").replace(":", " ").split()


def _is_wanted(entry: str) -> bool:
    return os.path.basename(entry).startswith(LIBRARY)


def _found() -> str | None:
    """Where the library lies."""
    searched = [Path(entry) for entry in os.environ.get("LD_LIBRARY_PATH", "").split(":") if entry]
    candidates = (folder / f"{LIBRARY}.so" for folder in (*searched, *FOLDERS))
    return next((str(path) for path in candidates if path.is_file()), None)


def _is_loaded() -> bool:
    """Whether this process has mapped the library, under its name or that of the file behind a link."""
    mapped = {os.path.basename(line.split()[-1]) for line in _maps() if "/" in line}
    preloaded = {os.path.basename(os.path.realpath(entry)) for entry in _preloaded() if _is_wanted(entry)}
    return bool(mapped & preloaded) or any(map(_is_wanted, mapped))


def _maps() -> list[str]:
    return Path("/proc/self/maps").read_text().splitlines()
