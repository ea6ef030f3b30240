"""The allocator of host memory."""

import os
import platform
import sys
from ctypes.util import find_library
from functools import cache
from pathlib import Path

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics, offered

TUNED = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "1073741824"}
LIBRARIES = {"jemalloc": ("jemalloc",), "tcmalloc": ("tcmalloc", "tcmalloc_minimal")}
MOST_FAULT_MS = 0.002  # at most, to map and clear one page, as the rule page_fault_bound has it
FAULT_MS = 0.001  # usually
MACHINE = platform.machine()
FOLDERS = (
    f"/usr/lib/{MACHINE}-linux-gnu", f"/lib/{MACHINE}-linux-gnu", "/usr/lib64", "/usr/local/lib64",
    "/usr/local/lib", "/usr/lib", f"{sys.prefix}/lib",
)  # fmt: skip


class Malloc(Knob[str]):
    """Which library gives memory to tensors on the host, and how long it keeps what was freed.

    glibc returns large tensors to the system when they are freed; in the next step each of their pages is
    mapped and cleared again. `libc-tuned` raises the sizes from which it does so to 1 GiB; `jemalloc` and
    `tcmalloc` keep freed memory by themselves and are tried where they are installed. A U-Net used 1.23 to
    1.28 times less CPU time with another library and 1.16 times less with tuned limits (2-core CPU,
    tentative: wall time did not confirm it). More memory stays with the process.

    It is set when a process starts, for all processes that it starts in turn.
    """

    semantics = Semantics.EXACT
    units = BOTH
    written = ("ld_preload",)

    def values(self) -> list[str]:
        return ["libc", "libc-tuned", *LIBRARIES]

    def present(self, profile: Profile) -> str:
        own = [name for name in os.environ if name.startswith("MALLOC_") and name.endswith("_")]
        own += [name for name in ("LD_PRELOAD", "GLIBC_TUNABLES") if "malloc" in os.environ.get(name, "")]
        if own:
            raise Refused(f"the allocator is chosen already, by {own[0]}")
        return "libc"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        if profile.device.startswith("cuda"):
            raise Refused("the model runs on the GPU, whose memory torch allocates itself (see alloc_conf)")
        refusals = {value: _refusal(value, profile) for value in self.values()[1:]}
        return offered(present, refusals)

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)
        reason = _refusal(value, profile)
        if reason:
            raise Refused(reason)

    def environment(self, value: str) -> dict[str, str]:
        """The variables of a process with this allocator; what is preloaded already stays so."""
        if value == "libc-tuned":
            return dict(TUNED)
        if value not in LIBRARIES:
            return {}
        library = _library(value) or f"lib{LIBRARIES[value][0]}.so"
        return {"LD_PRELOAD": ":".join(filter(None, (library, os.environ.get("LD_PRELOAD"))))}

    def ceiling(self, profile: Profile) -> float | None:
        """What page faults take at most of a step: memory that stays with the process causes none."""
        memory, phases = profile.memory, profile.phases
        if memory is None or phases is None or memory.minor_faults_per_step is None or phases.step_ms <= 0:
            return None
        share = memory.minor_faults_per_step * MOST_FAULT_MS / phases.step_ms
        return min(share, 1.0 if memory.system_share is None else memory.system_share)

    def expected(self, profile: Profile, value: str) -> float | None:
        """What page faults cost, of which another allocator saves most."""
        memory, phases = profile.memory, profile.phases
        if memory is None or phases is None or memory.minor_faults_per_step is None or phases.step_ms <= 0:
            return None
        share = memory.minor_faults_per_step * FAULT_MS / phases.step_ms
        return 1 / (1 - min(0.9, share, 1.0 if memory.system_share is None else memory.system_share))

    def process(self, value: str) -> None:
        """Look whether this process has the allocator.

        Raises:
            Refused: It was not loaded, or its variables are not set.
        """
        if value == "libc-tuned" and any(os.environ.get(name) != limit for name, limit in TUNED.items()):
            raise Refused("the variables of malloc did not reach the process")
        if value in LIBRARIES:
            mapped = Path("/proc/self/maps").read_text()
            if not any(f"lib{name}.so" in mapped for name in LIBRARIES[value]):
                raise Refused(f"{value} was not loaded into the process")

    def change(self, value: str) -> Change:
        if value == "libc":
            return Change("# start the program without LD_PRELOAD and without MALLOC_ variables")
        return Change("# set before the program starts", self.environment(value))


def _refusal(value: str, profile: Profile) -> str | None:
    if value == "libc":
        return None
    if not profile.machine.platform.startswith("Linux"):
        return "another allocator is preloaded on Linux only"
    if value == "libc-tuned":
        is_glibc = platform.libc_ver()[0] == "glibc"
        return None if is_glibc else "the C library is not glibc, which alone has these limits"
    return None if _library(value) else f"{value} was not found on this machine"


@cache
def _library(value: str) -> str | None:
    """Where the library of an allocator lies on this machine."""
    for name in LIBRARIES[value]:
        for folder in map(Path, FOLDERS):
            for path in sorted(folder.glob(f"lib{name}.so*")):
                return str(path)
    return next(filter(None, map(find_library, LIBRARIES[value])), None)
