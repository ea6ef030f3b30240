"""Whether the CPU computes with numbers too small to be normal."""

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.on_off_knob import Switch


class FlushDenormal(Switch):
    """Treats denormal numbers, smaller than 1.2e-38 in float32, as zero.

    Many processors compute with them much more slowly. They appear where values decay towards
    zero: long recurrences, momenta of parameters that get no gradient. Where there were none it did
    nothing: 0.95 to 1.04 times on all workloads, with losses equal bit by bit.

    The switch belongs to a thread and is inherited by those that it starts. So it must be set before
    the first parallel operation, and cannot be switched later.
    """

    semantics = Semantics.PRECISION
    units = BOTH
    usual_gain = 0.01
    acts_on = ("forward", "backward", "optimizer")

    def refusal(self, profile: Profile) -> str | None:
        return "the model runs on the GPU" if profile.device.startswith("cuda") else None

    def needless(self, profile: Profile) -> str | None:
        found = profile.denormals
        if found is not None and found.telling:
            return None
        return "no denormal numbers were met among parameters, gradients and optimizer state"

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
