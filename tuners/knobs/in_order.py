"""Whether batches arrive in the order in which they were asked for."""

from typing import Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.worker_knob import WorkerSetting


class InOrder(WorkerSetting[str]):
    """Takes whichever batch is ready instead of waiting for the one whose turn it is.

    One slow batch then holds up nobody else. It helps where items take very different times, and only with
    several workers. The price is the order: which batches come when depends on the machine's load, so
    two runs with the same seed differ, and slow items gather at the end of an epoch.

    Because that changes what is learnt, it is never tried unless named: ``--knob in_order``. Without
    workers it is refused.
    """

    semantics = Semantics.TRAINING
    named_only = True

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

    def _set(self, arguments: dict[str, Any], value: str) -> None:
        arguments["in_order"] = value == "on"

    def change(self, value: str) -> Change:
        return Change(f"DataLoader(..., in_order={value == 'on'})")
