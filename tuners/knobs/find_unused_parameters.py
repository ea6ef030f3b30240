"""Whether DistributedDataParallel looks in every step for parameters without a gradient."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Semantics
from advisor.tuners.strategy_knob import StrategySetting


class FindUnusedParameters(StrategySetting[str]):
    """Looks after each forward for parameters that will get no gradient, whose averages nobody must wait for.

    `auto` looks at the gradients of the first update and searches only if some are missing. `on` is for
    models that use all parameters at first and skip some later, such as randomly dropped layers. Walking the
    graph costs time in every step, so this is tried only when it is named. The effect was not measured.
    """

    semantics = Semantics.ROUNDING
    named_only = True
    strategies = ("ddp",)
    default = "auto"

    def values(self) -> list[str]:
        return ["auto", "on"]

    def choices(self, profile: Profile) -> list[str]:
        return ["auto", "on"]

    def change(self, value: str) -> Change:
        if value == "on":
            return Change("DistributedDataParallel(model, find_unused_parameters=True)")
        return Change("DistributedDataParallel(model)  # find_unused_parameters=True if torch asks for it")
