"""How far workers of a parameter server may run apart."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Semantics
from advisor.tuners.strategy_knob import StrategySetting


class Staleness(StrategySetting[str]):
    """Most steps that a worker may be ahead of the slowest under the strategy `parameter_server`.

    `0` waits for all workers: an update is the mean of their gradients, as `ddp` computes it. Otherwise each
    gradient is an update of its own, made at once; a worker that is further ahead than the number waits for
    the slowest, and with `unbounded` none does.

    What waiting costs is the time by which the slowest worker is slower; on equal workers there is little to
    gain. Anything but `0` changes what is learnt, so it is tried only when it is named, and judged by
    training, not by the numbers of single steps. No figure of our own.
    """

    semantics = Semantics.TRAINING
    named_only = True
    opt_in = True
    strategies = ("parameter_server",)
    default = "0"

    def values(self) -> list[str]:
        return ["0", "1", "4", "16", "unbounded"]

    def choices(self, profile: Profile) -> list[str]:
        return self.values()

    def change(self, value: str) -> Change:
        return Change(f"KeyValueServer(..., staleness={None if value == 'unbounded' else int(value)})")
