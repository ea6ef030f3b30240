"""A knob that is off in the program as it is, and can be on."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Knob, Refused


class Switch(Knob[str]):
    """``off`` or ``on``; what it needs of the run is told by ``refusal``."""

    def refusal(self, profile: Profile) -> str | None:
        """Why it cannot be on in this run; ``None`` where it can."""
        raise NotImplementedError

    def values(self) -> list[str]:
        """Both."""
        return ["off", "on"]

    def present(self, profile: Profile) -> str:
        """The program has it off."""
        return "off"

    def choices(self, profile: Profile) -> list[str]:
        """Both, where it can be on."""
        self.check("on", profile)
        return ["off", "on"]

    def check(self, value: str, profile: Profile) -> None:
        """Refuse to be on where that cannot work."""
        reason = self.refusal(profile) if value == "on" else None
        if reason:
            raise Refused(reason)
