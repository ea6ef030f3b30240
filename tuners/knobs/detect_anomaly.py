"""Autograd's search for operations whose gradient is not a number."""

from advisor.profiles.facts.profile import Profile
from advisor.profiles.hooks.omission import Anomalies
from advisor.tuners.knob import Change, Knob, Refused, Semantics


class DetectAnomaly(Knob[str]):
    """Switches anomaly detection off where a program left it on.

    It keeps a stack for every operation of the forward and looks at every gradient in the backward: steps
    ran at 0.32 to 0.78 of their speed (2-core CPU). The numbers are the same without it. What is lost is
    the error at the first gradient that is not a number, with the line that made it, so it belongs into
    a run that looks for one.

    It is switched off for blocks and for the whole program alike, whatever the program asks for meanwhile;
    programs that do not use it have nothing to switch off.
    """

    semantics = Semantics.EXACT
    live = True

    def __init__(self) -> None:
        self._held: Anomalies | None = None

    def values(self) -> list[str]:
        return ["on", "off"]

    def present(self, profile: Profile) -> str:
        if profile.run is None or "anomaly" not in profile.run.debug:
            raise Refused("the program does not use anomaly detection")
        return "on"

    def choices(self, profile: Profile) -> list[str]:
        return [self.present(profile), "off"]

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)

    def process(self, value: str) -> None:
        """Hold it off, or give the program back what it asks for."""
        if value == "off" and self._held is None:
            self._held = Anomalies(lambda: True)
            self._held.begin()
        elif value == "on" and self._held is not None:
            self._held.end()
            self._held = None

    def change(self, value: str) -> Change:
        if value == "on":
            return Change("torch.autograd.set_detect_anomaly(True)")
        return Change(
            "torch.autograd.set_detect_anomaly(False)  # and no `with torch.autograd.detect_anomaly():`"
        )
