"""Whether the CPU computes with numbers too small to be normal."""

from advisor.profiles.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics


class FlushDenormal(Knob[str]):
    """Treats denormal numbers, smaller than 1.2e-38 in float32, as zero.

    Many processors compute with them much more slowly. They appear where values decay towards
    zero: long recurrences, momenta of parameters that get no gradient. Where there were none it did
    nothing: 0.95 to 1.04 times on all workloads, with losses equal bit by bit.

    The switch belongs to a thread and is inherited by those that it starts. So it must be set before
    the first parallel operation, and cannot be switched later.
    """

    semantics = Semantics.PRECISION
    acts_on = ("forward", "backward", "optimizer")

    def values(self) -> list[str]:
        return ["off", "on"]

    def present(self, profile: Profile) -> str:
        return "off"

    def choices(self, profile: Profile) -> list[str]:
        self.check("on", profile)
        return ["off", "on"]

    def check(self, value: str, profile: Profile) -> None:
        if profile.device.startswith("cuda"):
            raise Refused("the model runs on the GPU")

    def process(self, value: str) -> None:
        """Set the switch of this thread, before it starts others.

        Raises:
            Refused: torch cannot switch this processor.
        """
        import torch

        if not torch.set_flush_denormal(value == "on"):
            raise Refused("torch cannot flush denormal numbers on this processor")

    def change(self, value: str) -> Change:
        return Change(f"torch.set_flush_denormal({value == 'on'})  # right after importing torch")
