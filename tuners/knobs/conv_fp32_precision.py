"""How exactly cuDNN convolves float32 images."""

from typing import TYPE_CHECKING, Any

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics
from advisor.tuners.mechanisms.computed import has_convolutions
from advisor.tuners.mechanisms.fast_units import no_units

if TYPE_CHECKING:
    from torch.optim import Optimizer


class ConvFp32Precision(Knob[str]):
    """Lets float32 convolutions round their factors to TF32, while everything stays float32 outside.

    TF32 keeps 10 bits of mantissa and runs on the tensor cores of NVIDIA GPUs from capability 8.0 on.
    It is torch's default for convolutions, so there is something to gain only where the program asked
    for `ieee`; going back to `ieee` is tried only when named. Nothing was measured on a GPU here.

    torch has two families of settings for this and rejects programs that mix them: the older
    ``allow_tf32``, which covers recurrent layers too, and ``fp32_precision``. The one that the program
    uses is used: the older one as long as it can be read.
    """

    semantics = Semantics.PRECISION
    units = BOTH
    live = True
    acts_on = ("forward", "backward")

    def __init__(self) -> None:
        self._newer = False

    def values(self) -> list[str]:
        return ["ieee", "tf32"]

    def present(self, profile: Profile) -> str:
        known = profile.run.conv_fp32_precision if profile.run is not None else None
        return known or "tf32"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        self.check(present, profile)
        if present == "tf32":
            raise Refused("float32 convolutions may use TF32 already")
        return [present, "tf32"]

    def check(self, value: str, profile: Profile) -> None:
        if not profile.device.startswith("cuda"):
            raise Refused("the model runs on the CPU, where cuDNN convolves nothing")
        reason = no_units(profile)
        if reason:
            raise Refused(reason)
        if not has_convolutions(profile):
            raise Refused("the model has no convolutions")
        kinds = {kind.removeprefix("torch.") for root in profile.roots for kind in root.dtypes}
        if kinds and "float32" not in kinds:
            raise Refused(f"the parameters are {', '.join(sorted(kinds))}, not float32")

    def process(self, value: str) -> None:
        """Set the precision of this process, by the family of settings that is in use."""
        import torch

        cudnn: Any = torch.backends.cudnn
        self._newer = self._newer or _newer_settings_in_use()
        if self._newer:
            cudnn.conv.fp32_precision = value
        else:
            cudnn.allow_tf32 = value == "tf32"

    def optimizer(self, optimizer: "Optimizer", value: str) -> None:
        """Set it again at the first update: programs set their own after importing torch."""
        self.process(value)

    def change(self, value: str) -> Change:
        return Change(
            f'torch.backends.cudnn.conv.fp32_precision = "{value}"\n'
            f"# torch.backends.cudnn.allow_tf32 = {value == 'tf32'} where the program uses allow_tf32"
        )


def _newer_settings_in_use() -> bool:
    """Whether the program has set ``fp32_precision``: the older getter then raises."""
    import torch

    try:
        torch._C._get_cudnn_allow_tf32()
    except RuntimeError:
        return True
    return False
