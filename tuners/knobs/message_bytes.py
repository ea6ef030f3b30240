"""Size of the messages between the workers and the servers of a parameter server."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Semantics
from advisor.tuners.strategy_knob import StrategySetting


class MessageBytes(StrategySetting[int]):
    """Parameters travel together in messages of this size under the strategy `parameter_server`.

    Each message has 1 KiB of its own and costs a wake-up at either end, so many small parameters should share
    one. A server begins to read a message when the first is complete, while the worker still packs the next:
    that is what several messages gain. A parameter that is larger travels alone. Numbers do not depend on it.
    No figure of our own.
    """

    semantics = Semantics.EXACT
    strategies = ("parameter_server",)
    default = 2**22

    def values(self) -> list[int]:
        return [2**22, 2**16, 2**20, 2**24, 2**26]

    def choices(self, profile: Profile) -> list[int]:
        return self.values()

    def change(self, value: int) -> Change:
        return Change(f"ServedOptimizer(..., message_bytes={value})")
