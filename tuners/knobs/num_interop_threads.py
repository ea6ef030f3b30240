"""Threads that run independent operations of one graph side by side."""

from typing import Any

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.profiles.hooks.patches import Patch
from advisor.tuners.knob import Change, Knob, Refused, Semantics


class NumInteropThreads(Knob[int]):
    """How many operations of a TorchScript graph may run at the same time on the CPU.

    Only `torch.jit.fork` and what is built on it use these threads; a program that calls its operations one
    after another never starts them, so there it is refused. Each of them may use all threads of
    `num_threads`, so several ask for more CPUs than there are. It was not measured here.

    torch takes the number once per process, before any such work. What the program itself asks for later
    is then ignored, since torch would answer it with an error.
    """

    semantics = Semantics.EXACT
    units = BOTH
    usual_gain = 0.01

    def __init__(self) -> None:
        self._set: int | None = None

    def values(self) -> range:
        return range(1, 4097)

    def present(self, profile: Profile) -> int:
        return profile.machine.physical_cores  # torch's default

    def choices(self, profile: Profile) -> list[int]:
        present = self.present(profile)
        self.check(present, profile)
        return [present, *(number for number in (1, 2) if number != present)]

    def check(self, value: int, profile: Profile) -> None:
        if profile.device.startswith("cuda"):
            raise Refused("the model runs on the GPU")
        if not any(root.scripted for root in profile.roots):
            raise Refused("needs a parallel graph: no model is scripted, so operations run one by one")

    def process(self, value: int) -> None:
        """Set the number, once.

        Raises:
            Refused: It has been set already, or such work has begun.
        """
        import torch

        if self._set == value:
            return
        try:
            torch.set_num_interop_threads(value)
        except RuntimeError:
            raise Refused("torch takes this number once per process, before any parallel work") from None
        self._set = value
        Patch(torch, "set_num_interop_threads", _overruling).install()

    def change(self, value: int) -> Change:
        return Change(f"torch.set_num_interop_threads({value})  # once, before any other work of torch")


def _overruling(original: Any) -> Any:
    def ignored(number: int) -> None:
        """A second call would raise."""

    return ignored
