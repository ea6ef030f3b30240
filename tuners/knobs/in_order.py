"""Whether batches arrive in the order in which they were asked for."""

from typing import Any

from advisor.profiles.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics


class InOrder(Knob[str]):
    """Takes whichever batch is ready instead of waiting for the one whose turn it is.

    One slow batch then holds up nobody else. It helps where items take very different times, and only with
    several workers. The price is the order: which batches come when depends on the machine's load, so
    two runs with the same seed differ, and slow items gather at the end of an epoch.

    Because that changes what is learnt, it is never tried unless named: ``--knob in_order``. Without
    workers it does nothing.
    """

    semantics = Semantics.TRAINING
    loading = True
    named_only = True
    acts_on = ("input_wait",)
    layer = 1  # looks at what num_workers has decided

    def values(self) -> list[str]:
        return ["on", "off"]

    def present(self, profile: Profile) -> str:
        if profile.loader is None:
            raise Refused("the program uses no DataLoader")
        return "on"

    def choices(self, profile: Profile) -> list[str]:
        return [self.present(profile), "off"]

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)

    def loader(self, arguments: dict[str, Any], value: str) -> None:
        """Set the order of one loader that has workers."""
        if arguments.get("num_workers"):
            arguments["in_order"] = value == "on"

    def change(self, value: str) -> Change:
        return Change(f"DataLoader(..., in_order={value == 'on'})")
