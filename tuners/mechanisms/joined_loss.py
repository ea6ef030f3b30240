"""The model and the loss of a workload as one module, for compiling them as one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

SEPARATE = (
    "the workload computes its loss in a `step` of its own, of which the model is only a part: compile that "
    "step, as in `step = torch.compile(step)`"
)
EVALUATED = "the model is also called alone, for evaluation, which would be compiled apart"


@dataclass
class Joining:
    """How the reference loop computes a loss; set before its first step.

    Attributes:
        on: Whether model and loss are called as one module.
        refusal: Why the last loss was computed apart although it is on.
    """

    on: bool = False
    refusal: str = SEPARATE
    _joined: "Module | None" = None

    def loss(
        self,
        function: "Callable[[Any, Any], Tensor]",
        model: "Module",
        batch: Any,
        *,
        evaluates: bool = False,
    ) -> "Tensor":
        """The loss of a model on one batch of inputs and targets.

        Args:
            function: Computes it from output and target.
            model: Computes the output.
            batch: Inputs and target.
            evaluates: Whether the loop also calls the model alone.
        """
        inputs, target = batch
        if self.on and evaluates:
            self.refusal = EVALUATED
        elif self.on:
            if self._joined is None or not joins(self._joined, model):
                self._joined = _kind()(function, model)
            joined: Tensor = self._joined(inputs, target)
            return joined
        return function(model(inputs), target)


def joins(module: "Module", model: "Module | None" = None) -> bool:
    """Whether a module is a model with its loss; that of ``model``, if it is given."""
    return isinstance(module, _kind()) and (model is None or module.model is model)


@cache
def _kind() -> "type[Module]":
    from torch import nn

    class WithLoss(nn.Module):
        def __init__(self, function: Any, model: "Module") -> None:
            super().__init__()
            self.function = function
            self.model = model

        def forward(self, inputs: Any, target: Any) -> Any:
            return self.function(self.model(inputs), target)

    return WithLoss


JOINING = Joining()
"""What the reference loop of this process does."""
