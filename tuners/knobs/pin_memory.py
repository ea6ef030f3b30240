"""Batches in page-locked memory, from where a GPU copies faster."""

from typing import Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics


class PinMemory(Knob[str]):
    """Puts each batch into page-locked host memory, so that its copy to the GPU is faster.

    It helps where copies take a visible part of the step, and more when the program copies with
    ``non_blocking=True``. It costs host memory that cannot be swapped, and a thread per loader.
    Without an accelerator torch accepts it silently and nothing changes, so there it is refused.
    """

    semantics = Semantics.EXACT
    of_iterator = True
    loading = True
    acts_on = ("input_wait", "transfer")

    def values(self) -> list[str]:
        return ["off", "on"]

    def present(self, profile: Profile) -> str:
        if profile.loader is None:
            raise Refused("the program uses no DataLoader")
        return "on" if profile.loader.pin_memory else "off"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        self.check(present, profile)
        return [present, "off" if present == "on" else "on"]

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)
        if not profile.device.startswith("cuda"):
            raise Refused("the model runs on the CPU, so no batch is copied to an accelerator")

    def loader(self, arguments: dict[str, Any], value: str) -> None:
        """Set where one loader puts its batches.

        Raises:
            Refused: This process has no accelerator.
        """
        import torch

        if value == "on" and not torch.accelerator.is_available():
            raise Refused("this process has no accelerator to copy batches to")
        arguments["pin_memory"] = value == "on"

    def change(self, value: str) -> Change:
        return Change(f"DataLoader(..., pin_memory={value == 'on'})")
