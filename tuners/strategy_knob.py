"""A knob that belongs to strategies: it acts only beside one of them, which reads its value itself."""

from typing import ClassVar, TypeVar

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Knob

V = TypeVar("V", bound=int | str)


class StrategySetting(Knob[V]):
    """One setting of one or several strategies.

    Class attributes:
        strategies: Ids of those that read it (``Strategy.setting``). Beside others it goes back to its
            default.
        default: What torch, or the strategy, does by itself.
    """

    follows = "strategy"
    opt_in = True
    strategies: ClassVar[tuple[str, ...]]
    default: ClassVar[int | str]

    def present(self, profile: Profile) -> V:
        return self.default  # type: ignore[return-value]  # of the type that the subclass names

    def process(self, value: V) -> None:
        """The strategy reads it when it wraps the model."""


class StrategySwitch(StrategySetting[str]):
    """A setting of strategies that is off unless it is switched on."""

    default = "off"

    def values(self) -> list[str]:
        return ["off", "on"]

    def choices(self, profile: Profile) -> list[str]:
        self.check("on", profile)
        return ["off", "on"]
