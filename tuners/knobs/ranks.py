"""Processes that each run the training loop."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics


class Ranks(Knob[int]):
    """How many workers a strategy starts; 1 for a process alone.

    What is tried comes from ``--ranks``, or from the number of GPUs. Servers of a parameter server come on
    top and share the workers' cores.
    """

    semantics = Semantics.ROUNDING
    usual_gain = 0.5
    follows = "strategy"

    def values(self) -> range:
        return range(1, 1025)

    def present(self, profile: Profile) -> int:
        return 1

    def choices(self, profile: Profile) -> list[int]:
        places = profile.machine.places
        if places < 2:
            raise Refused("one process fills this machine")
        return [1, *(n for n in range(2, places + 1) if n == places or n & (n - 1) == 0)]

    def check(self, value: int, profile: Profile) -> None:
        most = len(profile.machine.gpus) or profile.machine.cpus_allowed
        if value > most:
            raise Refused(f"{value} ranks, but there are places for {most}")

    def process(self, value: int) -> None:
        """The strategy starts them."""

    def change(self, value: int) -> Change:
        return Change(f"torchrun --nproc-per-node={value} ...")
