"""Whether the host waits for a batch that it copies to the device."""

from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics

if TYPE_CHECKING:
    from torch import Tensor

ENOUGH = 8  # copies from ordinary memory, before the program counts as one that pins nothing
UNPINNED = "batches come from ordinary memory, from where a copy is waited for anyway: needs pin_memory"


class NonBlocking(Knob[str]):
    """Lets the host go on while a batch is copied to the device.

    After `x.to(device)` the host waits until the copy has ended and launches nothing meanwhile. From pinned
    memory (see `pin_memory`) the device fetches the batch on its own while the host prepares what comes
    next. From ordinary memory the host has to take part, so those copies are left as they are.

    The numbers stay the same unless the program changes a batch on the host before its copy has ended.
    Copies to the host are never changed: what they bring may be read only after waiting. It costs no
    memory. Without an accelerator nothing is copied, so there it is refused.
    """

    semantics = Semantics.EXACT
    live = True

    def __init__(self) -> None:
        self._pinned = False
        self._unpinned = 0

    def values(self) -> list[str]:
        return ["off", "on"]

    def present(self, profile: Profile) -> str:
        device = profile.window.device if profile.window is not None else None
        copies = device.copy("h2d") if device is not None else None
        return "on" if copies is not None and copies.synchronous == 0 else "off"

    def choices(self, profile: Profile) -> list[str]:
        self.check("on", profile)
        if self.present(profile) == "on":
            raise Refused("the program copies its batches without waiting already")
        return ["off", "on"]

    def check(self, value: str, profile: Profile) -> None:
        if not profile.device.startswith("cuda"):
            raise Refused("needs an accelerator: the model runs on the CPU")

    def transfer(self, tensor: "Tensor", device: Any, value: str) -> "Tensor":
        """The tensor on the device, or as it is where nothing can be gained.

        Raises:
            Refused: None of the first copies comes from pinned memory.
        """
        if value == "off":
            return tensor.to(device)
        if tensor.is_pinned():
            self._pinned = True
            return tensor.to(device, non_blocking=True)
        self._unpinned += 1
        if not self._pinned and self._unpinned >= ENOUGH:
            raise Refused(UNPINNED)
        return tensor

    def change(self, value: str) -> Change:
        if value == "off":
            return Change("batch = batch.to(device)")
        return Change("batch = batch.to(device, non_blocking=True)  # from DataLoader(..., pin_memory=True)")
