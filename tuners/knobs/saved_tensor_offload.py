"""Where tensors wait that the backward pass will need."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.on_off_knob import Switch

if TYPE_CHECKING:
    from torch.nn import Module

FULL = 0.9  # of device memory at the peak of a step; where the rule memory_pressure begins to warn


class SavedTensorOffload(Switch):
    """Moves what forward saves for backward to host memory, and back when it is needed.

    It frees the memory of activations on the accelerator for the price of two copies of each of them
    over the bus. That is worth something only where memory is the limit, so it is tried only there: a
    larger batch or a larger model then fits. The copies go through page-locked memory of the host, as
    much as the activations take. The numbers stay the same. Nothing was measured on a GPU here.

    The forward of the root is covered; what a loss outside of it saves stays where it is.
    """

    semantics = Semantics.EXACT
    usual_gain = 0.0
    live = True
    acts_on = ("forward", "backward")

    def choices(self, profile: Profile) -> list[str]:
        choices, reason = super().choices(profile), _room_left(profile)
        if reason is not None:
            raise Refused(reason)
        return choices

    def refusal(self, profile: Profile) -> str | None:
        if profile.device.startswith("cuda"):
            return None
        return "the model runs on the CPU, where saved tensors are in host memory already"

    def forward(self, root: "Module", value: str) -> AbstractContextManager[Any] | None:
        """Saved tensors go to the host within one forward of the root.

        Raises:
            Refused: The parameters are on the CPU.
        """
        import torch

        parameter = next(root.parameters(), None)
        if value == "off" or parameter is None:
            return None
        kind = parameter.device.type
        if kind == "cpu":
            raise Refused("the parameters are on the CPU, where saved tensors are in host memory already")
        offload: AbstractContextManager[Any] = torch.autograd.graph.save_on_cpu(
            pin_memory=True, device_type=kind
        )
        return offload

    def change(self, value: str) -> Change:
        if value == "off":
            return Change("# call the model without save_on_cpu")
        return Change("with torch.autograd.graph.save_on_cpu(pin_memory=True):\n    output = model(input)")


def _room_left(profile: Profile) -> str | None:
    """Why memory of the device is not the limit; ``None`` where it is."""
    memory = profile.memory
    if memory is None or memory.device_peak_bytes is None or not memory.device_total_bytes:
        return "how full the device's memory gets is not known"
    share = memory.device_peak_bytes / memory.device_total_bytes
    if share > FULL or memory.allocation_retries:
        return None
    return f"a step uses {share * 100:.0f} % of device memory: there is nothing to make room for"
