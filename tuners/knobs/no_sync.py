"""How often gradients are averaged when they are accumulated."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.strategy_knob import StrategySetting


class NoSync(StrategySetting[str]):
    """Averages gradients after the last of several micro-batches only (`on`), or after each (`off`).

    The result is the same up to rounding, and k micro-batches send as much as one. `off` is what a program
    does that forgets `no_sync`; it is tried to show the cost, which was not measured.
    """

    semantics = Semantics.ROUNDING
    strategies = ("ddp",)
    default = "on"

    def values(self) -> list[str]:
        return ["off", "on"]

    def choices(self, profile: Profile) -> list[str]:
        if profile.run is None or profile.run.backwards_per_step <= 1:
            raise Refused("each update has one backward, after which gradients are averaged in any case")
        return ["on", "off"]

    def change(self, value: str) -> Change:
        if value == "off":
            return Change("loss.backward()  # for every micro-batch, outside of model.no_sync()")
        return Change(
            "with contextlib.nullcontext() if last_micro_batch else model.no_sync():\n"
            "    (loss_function(model(inputs), target) / micro_batches).backward()"
        )
