"""A change that changes nothing, to measure how often noise is taken for a gain."""

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Semantics


class Placebo(Knob[str]):
    """Does nothing at all. A tuner that recommends it has mistaken noise for a gain.

    It is never tried unless named: ``--knob placebo``.
    """

    semantics = Semantics.EXACT
    units = BOTH
    live = True
    named_only = True

    def values(self) -> list[str]:
        return ["off", "on"]

    def choices(self, profile: Profile) -> list[str]:
        return ["off", "on"]

    def process(self, value: str) -> None:
        """Nothing happens at its start, nor where it is switched."""

    def step(self, optimizer: object, value: str) -> None:
        """Nothing happens around the update."""

    def change(self, value: str) -> Change:
        return Change("# nothing to write: this knob has no effect")
