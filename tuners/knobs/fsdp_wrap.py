"""What is gathered at a time under FSDP."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.mechanisms.blocks import NO_BLOCKS
from advisor.tuners.strategy_knob import StrategySetting


class FsdpWrap(StrategySetting[str]):
    """Gathers the parameters of the whole model at a time, or of each repeated block.

    `whole` makes one large message before forward and one after backward: least overhead, but all parameters
    and gradients exist at once, and nothing overlaps with the messages. `blocks` makes every repeated block
    a unit, and one more of what is left: the next block is gathered while one computes. Small blocks on
    fast links do best with `whole`. On two cores and small models only `whole` was measured.
    """

    semantics = Semantics.ROUNDING
    strategies = ("fsdp",)
    default = "whole"

    def values(self) -> list[str]:
        return ["whole", "blocks"]

    def choices(self, profile: Profile) -> list[str]:
        self.check("blocks", profile)
        return ["whole", "blocks"]

    def check(self, value: str, profile: Profile) -> None:
        if value == "blocks" and not any(root.repeated_blocks > 1 for root in profile.roots):
            raise Refused(NO_BLOCKS)

    def change(self, value: str) -> Change:
        if value == "whole":
            return Change("fully_shard(model)")
        return Change("for block in blocks:\n    fully_shard(block)\nfully_shard(model)")
