"""Where a rank keeps its part of parameters, gradients and optimizer state under FSDP."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.strategy_knob import StrategySwitch


class FsdpOffload(StrategySwitch):
    """Keeps each rank's part in the memory of the host, and copies it to the device to be gathered.

    The device then holds only what is gathered, and activations; gradients go to the host, where the
    optimizer updates on the CPU. That is slow: it pays only for what does not fit otherwise. It needs an
    accelerator. The effect was not measured.
    """

    semantics = Semantics.ROUNDING
    strategies = ("fsdp",)

    def check(self, value: str, profile: Profile) -> None:
        if value == "on" and not profile.device.startswith("cuda"):
            raise Refused("without an accelerator everything is in the memory of the host already")

    def change(self, value: str) -> Change:
        if value == "off":
            return Change("fully_shard(...)  # without offload_policy")
        return Change(
            "from torch.distributed.fsdp import CPUOffloadPolicy\n"
            "fully_shard(..., offload_policy=CPUOffloadPolicy())"
        )
