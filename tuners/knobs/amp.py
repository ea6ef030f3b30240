"""Automatic mixed precision: a root's forward computes in 16 bits where that is safe."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics
from advisor.tuners.mechanisms.casting import to_float32
from advisor.tuners.mechanisms.fast_units import no_units
from advisor.tuners.mechanisms.loss_scaling import LossScaling

if TYPE_CHECKING:
    from torch import Tensor, dtype
    from torch.nn import Module
    from torch.optim import Optimizer

OWN_AUTOCAST = "the program uses autocast itself"


class Amp(Knob[str]):
    """Runs the forward under autocast in bfloat16, or in float16 with a scaled loss.

    bf16 measured on a CPU with bf16 units: BERT, GPT-2, LSTM 1.8 to 2.0; ResNet, ViT, U-Net 1.4 to 1.6;
    a small MLP 1.05 at batch 32 but 2.6 times together with batch 512; recommender 0.92, LeNet **0.77**.
    Published for GPUs: 2.6 to 3.3 on ResNet-50. It also saves memory, often as much as checkpointing.

    Only the root's own forward is covered; its outputs are cast back to float32, so losses outside keep
    their precision. Losses moved by 2e-4 to 6e-3, which is compared with the noise between seeds.

    fp16 needs its small gradients protected: the loss is scaled and each gradient divided before it is
    accumulated; an update with infinite gradients is skipped and the scale halved (two such steps were
    seen on an image classifier before it recovered). Costs one synchronisation per step. Not possible
    with ``autograd.grad``, ``create_graph`` or an optimizer that calls backward itself.
    """

    semantics = Semantics.PRECISION
    units = BOTH
    usual_gain = 0.35
    live = True
    acts_on = ("forward", "backward")
    written = ("autocast",)

    def __init__(self) -> None:
        self.scaling = LossScaling()
        self._depth = 0

    @property
    def skipped_steps(self) -> int:
        """Updates left out so far because scaled gradients overflowed."""
        return self.scaling.skipped_steps

    def values(self) -> list[str]:
        return ["off", "bf16", "fp16"]

    def present(self, profile: Profile) -> str:
        if profile.run is not None and (profile.run.own_autocast or profile.run.own_scaler):
            raise Refused(OWN_AUTOCAST)
        return "off"

    def choices(self, profile: Profile) -> list[str]:
        tried = ["bf16", "fp16"] if profile.device.startswith("cuda") else ["bf16"]
        refusals = {value: self._refusal(value, profile) for value in tried}
        if all(refusals.values()):
            raise Refused("; ".join(dict.fromkeys(reason for reason in refusals.values() if reason)))
        return [self.present(profile), *(value for value, reason in refusals.items() if not reason)]

    def check(self, value: str, profile: Profile) -> None:
        reason = self._refusal(value, profile)
        if reason:
            raise Refused(reason)

    def forward(self, root: "Module", value: str) -> AbstractContextManager[None] | None:
        """Autocast around one forward of the root, on the device of its parameters.

        Raises:
            Refused: Autocast is already on, or the parameters are not float32.
        """
        import torch

        parameter = next(root.parameters(), None)
        if value == "off" or parameter is None:
            return None
        if self._depth == 0 and torch.is_autocast_enabled(parameter.device.type):
            raise Refused(OWN_AUTOCAST)
        if parameter.dtype != torch.float32:
            raise Refused(f"the parameters are {str(parameter.dtype).removeprefix('torch.')}, not float32")
        if value == "fp16":
            self.scaling.watch(root.parameters())
        return self._autocast(parameter.device.type, torch.bfloat16 if value == "bf16" else torch.float16)

    def output(self, root: "Module", output: Any, value: str) -> Any:
        """The root's output in float32."""
        return to_float32(output) if value != "off" else output

    def backward(self, loss: "Tensor", value: str) -> "Tensor":
        """For fp16 the loss times the present scale."""
        return self.scaling.scaled(loss) if value == "fp16" else loss

    def gradients(self, optimizer: "Optimizer", value: str) -> bool | None:
        """For fp16 whether all gradients are finite; otherwise they are cleared."""
        return self.scaling.keeps(optimizer) if value == "fp16" else None

    def change(self, value: str) -> Change:
        if value == "off":
            return Change("# call the model without torch.autocast")
        if value == "bf16":
            return Change(
                "with torch.autocast(device.type, dtype=torch.bfloat16):\n    output = model(input)"
            )
        return Change(
            "scaler = torch.amp.GradScaler(device.type)\n"
            "with torch.autocast(device.type, dtype=torch.float16):\n"
            "    output = model(input)\n"
            "scaler.scale(loss).backward()\n"
            "scaler.step(optimizer)  # scaler.unscale_(optimizer) before clipping\n"
            "scaler.update()"
        )

    @contextmanager
    def _autocast(self, device: str, kind: "dtype") -> Iterator[None]:
        import torch

        self._depth += 1
        try:
            with torch.autocast(device, dtype=kind):
                yield
        finally:
            self._depth -= 1

    def _refusal(self, value: str, profile: Profile) -> str | None:
        run = profile.run
        if run is not None and (run.own_autocast or run.own_scaler):
            return OWN_AUTOCAST
        kinds = {kind.removeprefix("torch.") for root in profile.roots for kind in root.dtypes}
        if "float64" in kinds:
            return "the parameters are float64, on which autocast has no effect"
        if kinds and "float32" not in kinds:
            return f"the parameters are {', '.join(sorted(kinds))} already"
        if value == "bf16":
            return no_units(profile)
        if value == "fp16" and run is not None and run.own_backward_transforms:
            return "gradients are taken by autograd.grad or with create_graph, where no loss can be scaled"
        if value == "fp16" and not profile.optimizers:
            return "parameters are updated without torch.optim, so no step can be skipped"
        if value == "fp16" and any(facts.closure for facts in profile.optimizers):
            return "the optimizer calls backward inside its step, where no update can be skipped"
        return None
