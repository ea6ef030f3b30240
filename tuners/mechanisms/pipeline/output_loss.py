"""The loss of an output that was computed before, by the user's own function."""

from typing import TYPE_CHECKING, Any

from advisor.tuners.knob import Refused
from advisor.tuners.strategy import Loss

if TYPE_CHECKING:
    from torch import Tensor

MORE = (
    "its step does more with the model than call it once on the first part of the batch, "
    "so it cannot be split into stages"
)
NO_PAIR = "batches are no pair of an input tensor and a target"


def model_input(batch: Any) -> "Tensor":
    """What the model is called with.

    Raises:
        Refused: The batch does not begin with a tensor.
    """
    import torch

    if isinstance(batch, (list, tuple)) and batch and isinstance(batch[0], torch.Tensor):
        return batch[0]
    raise Refused(NO_PAIR)


def loss_of_output(loss: Loss, output: "Tensor", batch: Any) -> "Tensor":
    """The loss where the model has made ``output`` of this batch.

    The loss function is handed a stand-in, whose call returns the output and which has nothing else.

    Raises:
        Refused: It asked for something else, or for nothing.
    """
    stand_in = _StandIn(model_input(batch), output)
    value = loss(stand_in, batch)  # type: ignore[arg-type]  # no module, so that nothing escapes notice
    if not stand_in.called:
        raise Refused(MORE)
    return value


class _StandIn:
    """Answers one call with the expected input; any other use of a model is refused."""

    __slots__ = ("_inputs", "_output", "called")

    def __init__(self, inputs: "Tensor", output: "Tensor") -> None:
        self._inputs = inputs
        self._output = output
        self.called = False

    def __call__(self, *arguments: Any, **named: Any) -> "Tensor":
        if self.called or named or len(arguments) != 1 or arguments[0] is not self._inputs:
            raise Refused(MORE)
        self.called = True
        return self._output

    def __getattr__(self, name: str) -> Any:
        raise Refused(MORE)
