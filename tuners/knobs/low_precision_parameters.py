"""Parameters that are stored in 16 bits."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics
from advisor.tuners.mechanisms.casting import to_float32
from advisor.tuners.mechanisms.fast_units import no_units

if TYPE_CHECKING:
    from torch.nn import Module

SCALED = "the program scales its loss, and torch cannot unscale bfloat16 gradients"


class LowPrecisionParameters(Knob[str]):
    """Stores parameters, gradients and optimizer state in bfloat16, which halves their memory.

    Unlike `amp` no float32 copy of the weights is kept: an update smaller than 1/256 of a weight is
    rounded away, so what is learnt differs and long runs can stop improving. It is tried only when it
    is named. Test `amp` first, which keeps the weights exact.

    Inputs of the root are cast to bfloat16 and its outputs back to float32, so that a loss outside keeps
    its precision. It was not measured.
    """

    semantics = Semantics.TRAINING
    named_only = True
    acts_on = ("forward", "backward", "optimizer")
    layer = 1  # outside of what execution compiles

    def values(self) -> list[str]:
        return ["off", "bf16"]

    def present(self, profile: Profile) -> str:
        return "off"

    def choices(self, profile: Profile) -> list[str]:
        self.check("bf16", profile)
        return ["off", "bf16"]

    def check(self, value: str, profile: Profile) -> None:
        if value == "off":
            return
        kinds = {kind.removeprefix("torch.") for root in profile.roots for kind in root.dtypes}
        if kinds - {"float32"}:
            raise Refused(f"the parameters are {', '.join(sorted(kinds))}, not float32 alone")
        if profile.run is not None and profile.run.own_scaler:
            raise Refused(SCALED)
        reason = no_units(profile)
        if reason:
            raise Refused(reason)

    def model(self, root: "Module", value: str) -> "Module":
        """Convert parameters and floating buffers in place; the optimizer keeps its parameters.

        Raises:
            Refused: Not all parameters are float32.
        """
        import torch

        if value == "bf16":
            others = {parameter.dtype for parameter in root.parameters()} - {torch.float32}
            if others:
                names = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in others))
                raise Refused(f"there are parameters of type {names}")
            root.to(torch.bfloat16)
        return root

    def call(self, function: Callable[..., Any], root: "Module", value: str) -> Callable[..., Any]:
        """Wrap ``function`` so that it gets bfloat16 inputs and gives float32 outputs."""
        if value != "bf16":
            return function

        @wraps(function)
        def in_bfloat16(*inputs: Any, **named: Any) -> Any:
            return to_float32(function(*_to_bfloat16(inputs), **_to_bfloat16(named)))

        return in_bfloat16

    def change(self, value: str) -> Change:
        if value == "off":
            return Change("# parameters stay float32")
        return Change("model = model.to(torch.bfloat16)\noutput = model(input.to(torch.bfloat16)).float()")


def _to_bfloat16(item: Any) -> Any:
    """``item`` with every float32 tensor in its tuples, lists and dictionaries as bfloat16."""
    import torch

    if isinstance(item, torch.Tensor):
        return item.to(torch.bfloat16) if item.dtype == torch.float32 else item
    if type(item) is dict:
        return {key: _to_bfloat16(part) for key, part in item.items()}
    if type(item) in (list, tuple):
        return type(item)(_to_bfloat16(part) for part in item)
    return item
