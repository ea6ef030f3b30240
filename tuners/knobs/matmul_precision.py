"""How exactly float32 matrices are multiplied."""

from typing import TYPE_CHECKING

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics
from advisor.tuners.mechanisms.fast_units import no_units

if TYPE_CHECKING:
    from torch.optim import Optimizer


class MatmulPrecision(Knob[str]):
    """Lets float32 matrix products use fewer bits inside, while everything stays float32 outside.

    `high` allows TF32 on a GPU, `medium` also bfloat16. `medium` gave 1.43 to 1.58 times on BERT, GPT-2
    and an LSTM on a CPU with bf16 units and nothing on other workloads; small shapes do not use it.
    On a CPU `high` changes nothing, so only `medium` is proposed there, and `highest` to programs that have
    `medium`: small products can be faster without the conversion. On a GPU nothing more exact than what the
    program has is faster. It costs no memory and no code, which makes it the first thing to compare `amp`
    with.

    Programs that use torch's newer ``fp32_precision`` settings cannot mix them with this one.
    """

    semantics = Semantics.PRECISION
    units = BOTH
    usual_gain = 0.3
    live = True
    acts_on = ("forward", "backward")

    def values(self) -> list[str]:
        return ["highest", "high", "medium"]

    def present(self, profile: Profile) -> str:
        return profile.run.matmul_precision if profile.run is not None else "highest"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        self.check(present, profile)
        if profile.device.startswith("cuda"):
            values = self.values()
            return [present, *values[values.index(present) + 1 :]]
        return [present, "highest" if present == "medium" else "medium"]

    def check(self, value: str, profile: Profile) -> None:
        reason = no_units(profile)
        if reason:
            raise Refused(reason)

    def process(self, value: str) -> None:
        """Set the precision of this process.

        Raises:
            Refused: The program uses the newer ``fp32_precision`` settings.
        """
        import torch

        try:
            torch.get_float32_matmul_precision()
        except RuntimeError:
            raise Refused("the program sets fp32_precision itself, which excludes this setting") from None
        torch.set_float32_matmul_precision(value)

    def optimizer(self, optimizer: "Optimizer", value: str) -> None:
        """Set it again at the first update: programs set their own after importing torch."""
        self.process(value)

    def change(self, value: str) -> Change:
        return Change(f'torch.set_float32_matmul_precision("{value}")')
