"""Whether cuDNN times its algorithms for each convolution."""

from typing import TYPE_CHECKING

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics
from advisor.tuners.mechanisms.computed import has_convolutions

if TYPE_CHECKING:
    from torch.optim import Optimizer

DETERMINISTIC = "the run asks for determinism, which a timed choice of algorithms would break"


class CudnnBenchmark(Knob[str]):
    """Times cuDNN's algorithms once for each shape of a convolution and keeps the fastest.

    Without it cuDNN picks one by a rule of thumb. The timing takes a part of the first steps and some
    memory, and begins anew with every other shape, so it is refused where shapes of batches vary. Which
    algorithm wins can differ between two runs: numbers then differ by rounding, and runs that ask for
    determinism are left alone. Nothing was measured on a GPU here.
    """

    semantics = Semantics.ROUNDING
    units = BOTH
    live = True
    acts_on = ("forward", "backward")
    written = ("cudnn.benchmark",)

    def values(self) -> list[str]:
        return ["off", "on"]

    def present(self, profile: Profile) -> str:
        return "on" if profile.run is not None and profile.run.cudnn_benchmark else "off"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        other = "off" if present == "on" else "on"
        self.check(other, profile)
        return [present, other]

    def check(self, value: str, profile: Profile) -> None:
        if not profile.device.startswith("cuda"):
            raise Refused("the model runs on the CPU, where cuDNN convolves nothing")
        if not has_convolutions(profile):
            raise Refused("the model has no convolutions")
        if value == "on" and profile.run is not None and profile.run.deterministic:
            raise Refused(DETERMINISTIC)
        if value == "on" and profile.loader is not None and profile.loader.shapes_vary:
            raise Refused("the shapes of batches vary, and every new shape is timed anew")

    def process(self, value: str) -> None:
        """Set the flag of this process."""
        import torch

        torch.backends.cudnn.benchmark = value == "on"

    def optimizer(self, optimizer: "Optimizer", value: str) -> None:
        """Set it again at the first update: programs set their own after importing torch.

        Raises:
            Refused: The program asks for determinism.
        """
        import torch

        asked = torch.are_deterministic_algorithms_enabled() or torch.backends.cudnn.deterministic
        if value == "on" and asked:
            self.process("off")
            raise Refused(DETERMINISTIC)
        self.process(value)

    def change(self, value: str) -> Change:
        return Change(f"torch.backends.cudnn.benchmark = {value == 'on'}")
