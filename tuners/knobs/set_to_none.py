"""How gradients are cleared: taken away, or overwritten with zeros."""

import weakref
from typing import TYPE_CHECKING

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

SOMETIMES = (
    "some parameter gets a gradient in some steps only: without one it is left alone, "
    "with zeros its momentum and decay go on"
)


class SetToNone(Knob[str]):
    """Sets gradients to ``None`` instead of writing zeros into them.

    Zeros cost one pass over memory as large as the parameters, and the backward then adds to them where it
    could have stored its result: a recommender ran at 0.71 of its speed with zeros (2-core CPU), other models
    showed no clear difference. ``None`` is torch's default and also frees the memory for a while. Code
    that reads a gradient before the first backward must allow for it.

    The numbers are the same as long as every parameter gets a gradient in every step, or never. One that
    gets it in some steps only is left alone by ``None``, while zeros let its momentum and weight decay
    act; where that is seen, the change is refused.
    """

    semantics = Semantics.EXACT
    usual_gain = 0.02
    live = True

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Optimizer, dict[int, Tensor]] = weakref.WeakKeyDictionary()
        self._aside: list[tuple[Tensor, Tensor]] = []  # parameters and their zeroed gradients
        self._given: dict[int, tuple[Tensor, int]] = {}  # zeros given back, as they were then

    def values(self) -> list[str]:
        return ["on", "off"]

    def present(self, profile: Profile) -> str:
        if not profile.optimizers:
            raise Refused("parameters are updated without torch.optim")
        ways = {facts.zeroes_gradients for facts in profile.optimizers} - {None}
        if not ways:
            raise Refused("the program was not seen to clear gradients by zero_grad")
        return "off" if True in ways else "on"

    def choices(self, profile: Profile) -> list[str]:
        if self.present(profile) == "on":
            raise Refused("gradients are set to None already; writing zeros into them only costs time")
        return ["off", "on"]

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)

    def optimizer(self, optimizer: "Optimizer", value: str) -> None:
        """Forget what the value before has left."""
        self._aside.clear()
        self._given.clear()

    def clear(self, optimizer: "Optimizer", value: str) -> None:
        """Clear all gradients in the way of ``value``; what the program then clears is clear already.

        Raises:
            Refused: A parameter that had a gradient before got none this time, while others did.
        """
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        reached = {id(parameter): parameter for parameter in parameters if self._is_reached(parameter)}
        known = self._known.setdefault(optimizer, {})
        if reached and known.keys() - reached.keys() and not _leaves_zeros_alone(optimizer):
            raise Refused(SOMETIMES)
        known.update(reached)
        for parameter in parameters:
            if parameter.grad is None:
                continue
            if value == "off":
                self._aside.append((parameter, _zeroed(parameter.grad)))
            parameter.grad = None

    def backward(self, loss: "Tensor", value: str) -> "Tensor":
        """Before the backward adds to them, zeros are put where the program took the gradients away."""
        for parameter, zeros in self._aside:
            if parameter.grad is None:
                parameter.grad = zeros
                self._given[id(parameter)] = zeros, zeros._version
        self._aside.clear()
        return loss

    def change(self, value: str) -> Change:
        return Change(f"optimizer.zero_grad(set_to_none={value == 'on'})")

    def _is_reached(self, parameter: "Tensor") -> bool:
        """Whether a backward has given it a gradient since the last clearing."""
        gradient = parameter.grad
        zeros, version = self._given.pop(id(parameter), (None, 0))
        return gradient is not None and (gradient is not zeros or gradient._version != version)


def _zeroed(gradient: "Tensor") -> "Tensor":
    """The gradient itself, without its graph and full of zeros, as torch would leave it."""
    if gradient.grad_fn is not None:
        gradient.detach_()
    else:
        gradient.requires_grad_(False)
    return gradient.zero_()


def _leaves_zeros_alone(optimizer: "Optimizer") -> bool:
    """Whether an update with a gradient of zeros changes nothing."""
    return type(optimizer).__name__ == "SGD" and not any(
        group.get("momentum") or group.get("weight_decay") for group in optimizer.param_groups
    )
