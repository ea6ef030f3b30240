"""Whether parameters stay whole between forward and backward under FSDP."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Semantics
from advisor.tuners.strategy_knob import StrategySetting


class ReshardAfterForward(StrategySetting[str]):
    """Gives up the parameters of other ranks after forward, and gathers them once more for backward.

    `on` is like stage 3 of ZeRO: whole parameters exist only while a unit computes, and travel twice per
    step. `off` is like stage 2: they stay until backward has used them, and travel once, a third less of all
    that is sent. Gradients and optimizer state are divided in both. With blocks as units, what lies beside
    them is kept in any case, as torch recommends: backward begins with it. The effect was not measured.
    """

    semantics = Semantics.EXACT
    strategies = ("fsdp",)
    default = "on"

    def values(self) -> list[str]:
        return ["on", "off"]

    def choices(self, profile: Profile) -> list[str]:
        return ["on", "off"]

    def change(self, value: str) -> Change:
        return Change(f"fully_shard(..., reshard_after_forward={value == 'on'})")
