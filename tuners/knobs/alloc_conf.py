"""How torch's allocator of GPU memory cuts and keeps its blocks."""

import os

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics

VARIABLE = "PYTORCH_ALLOC_CONF"
OLDER = "PYTORCH_CUDA_ALLOC_CONF"
SETTINGS = {
    "expandable_segments": "expandable_segments:True",
    "max_split_size": "max_split_size_mb:128",
    "garbage_collection_threshold": "garbage_collection_threshold:0.8",
}


class AllocConf(Knob[str]):
    """Settings against fragmentation: cached memory that is free but in the wrong sizes.

    `expandable_segments` lets a segment grow, so that blocks of changing sizes find room in it; it helps
    where shapes vary. `max_split_size` keeps blocks above 128 MB whole for the next large tensor.
    `garbage_collection_threshold` gives cached blocks back from 80 % of the memory on, before the allocator
    must stop the device and give back all of them.

    None makes a step faster where memory is not fragmented. No figure of our own: it needs CUDA. The
    variable is read at the first use of the device.
    """

    semantics = Semantics.EXACT
    units = BOTH
    written = ("pytorch_alloc_conf",)

    def values(self) -> list[str]:
        return ["unset", *SETTINGS]

    def present(self, profile: Profile) -> str:
        for name in (VARIABLE, OLDER):
            if name in os.environ:
                raise Refused(f"{name} is set already")
        return "unset"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        self.check(present, profile)
        return [present, *SETTINGS]

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)
        if not profile.device.startswith("cuda"):
            raise Refused("the model runs on the CPU, whose memory has another allocator (see malloc)")

    def environment(self, value: str) -> dict[str, str]:
        """The variables of a process with this setting."""
        return {VARIABLE: SETTINGS[value]} if value in SETTINGS else {}

    def process(self, value: str) -> None:
        """Look whether the allocator will read the setting.

        Raises:
            Refused: The variable did not arrive, or the program has changed it.
        """
        if value in SETTINGS and os.environ.get(VARIABLE) != SETTINGS[value]:
            raise Refused(f"{VARIABLE} did not reach the process, or the program sets it itself")

    def change(self, value: str) -> Change:
        if value == "unset":
            return Change(f"# start the program without {VARIABLE}")
        return Change("# set before the program starts", self.environment(value))
