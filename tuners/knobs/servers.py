"""Server processes of a parameter server."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Semantics
from advisor.tuners.strategy_knob import StrategySetting


class Servers(StrategySetting[int]):
    """How many processes hold the parameters under the strategy `parameter_server`.

    Keys are divided among them so that bytes balance. A second server halves what each one receives, updates
    and sends, and takes over the other's keys should that be lost; it costs a process more, on the same cores
    as the workers where there is only one machine. Numbers do not depend on it. No figure of our own.
    """

    semantics = Semantics.ROUNDING
    strategies = ("parameter_server",)
    default = 1

    def values(self) -> list[int]:
        return [1, 2]

    def choices(self, profile: Profile) -> list[int]:
        return self.values()

    def change(self, value: int) -> Change:
        return Change(f"torchrun --nproc-per-node=WORKERS+{value} ...  # the last {value} ranks are servers")
