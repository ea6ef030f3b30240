"""Whether oneDNN computes on the CPU."""

from typing import TYPE_CHECKING

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics

if TYPE_CHECKING:
    from torch.optim import Optimizer


class Mkldnn(Knob[str]):
    """Lets oneDNN, which torch calls mkldnn, compute convolutions and 16-bit products on the CPU.

    It is on unless a program switches it off. Off, convolution networks ran at 0.37 to 0.58 of their
    speed. Very small layers can be the exception, since oneDNN prepares each call: that is what `off`
    is tried for. Sums are taken in another order, which showed as 3e-6 in the loss.
    """

    semantics = Semantics.ROUNDING
    units = BOTH
    usual_gain = 0.01
    live = True
    acts_on = ("forward", "backward")
    written = ("backends.mkldnn",)

    def values(self) -> list[str]:
        return ["on", "off"]

    def present(self, profile: Profile) -> str:
        known = profile.run.mkldnn_enabled if profile.run is not None else None
        return "off" if known is False else "on"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        self.check(present, profile)
        return [present, "off" if present == "on" else "on"]

    def check(self, value: str, profile: Profile) -> None:
        if profile.device.startswith("cuda"):
            raise Refused("the model runs on the GPU")
        if not profile.machine.mkldnn:
            raise Refused("this torch was built without oneDNN")

    def process(self, value: str) -> None:
        """Set the switch of this process; `set_flags` would reset other settings with it."""
        import torch

        torch._C._set_mkldnn_enabled(value == "on")

    def optimizer(self, optimizer: "Optimizer", value: str) -> None:
        """Set it again at the first update: programs set their own after importing torch."""
        self.process(value)

    def change(self, value: str) -> Change:
        return Change(f"torch.backends.mkldnn.enabled = {value == 'on'}")
