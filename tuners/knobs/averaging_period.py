"""How often models are averaged by local SGD."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Semantics
from advisor.tuners.strategy_knob import StrategySetting


class AveragingPeriod(StrategySetting[int]):
    """Updates that every rank makes by itself between two averages of all models.

    A period of 8 sends half of what one of 4 does, and lets the copies drift further apart. What a period
    costs in learning is not decided by a few steps: compare how far training gets in a given time. The
    effect was not measured.
    """

    semantics = Semantics.TRAINING
    strategies = ("local_sgd",)
    default = 4

    def values(self) -> list[int]:
        return [2, 4, 8, 16]

    def choices(self, profile: Profile) -> list[int]:
        return [4, 2, 8, 16]

    def change(self, value: int) -> Change:
        return Change(f"PeriodicModelAverager(period={value})")
