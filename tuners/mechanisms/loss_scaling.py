"""Scales a loss so that small fp16 gradients survive, unseen by the program.

The loss is multiplied before its backward; each parameter's gradient is divided before it is added to
``grad``. Clipping, accumulation and logging see true gradients. Factors are powers of two, so nothing
is rounded that was not rounded anyway.
"""

import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter
    from torch.optim import Optimizer

# as torch.amp.GradScaler
FIRST_SCALE = 65536.0
GROWTH = 2.0
BACKOFF = 0.5
GROWTH_INTERVAL = 2000


class LossScaling:
    """One scale for a whole program; every optimizer counts its own good steps.

    Attributes:
        scale: The present factor on the loss.
        skipped_steps: Updates left out because a gradient was infinite or not a number.
    """

    def __init__(self, first_scale: float = FIRST_SCALE, growth_interval: int = GROWTH_INTERVAL) -> None:
        self.scale = first_scale
        self.skipped_steps = 0
        self._growth_interval = growth_interval
        self._good_steps: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()
        self._watched: dict[int, weakref.ref[Tensor]] = {}
        self._in_backward: float | None = None

    def watch(self, parameters: "Iterable[Parameter]") -> "list[Parameter]":
        """Divide what these parameters receive from scaled losses; returns those not watched before."""
        new = [p for p in parameters if p.requires_grad and not self._is_watched(p)]
        for parameter in new:
            self._watched[id(parameter)] = weakref.ref(parameter)
            parameter.register_hook(self._divided)
        return new

    def scaled(self, loss: "Tensor") -> "Tensor":
        """The loss to call backward on; gradients are divided during that backward only."""
        if not loss.requires_grad:
            return loss  # for torch to say so in its own words
        scale = self.scale
        result = loss * scale
        result.register_hook(self._starting(scale))
        return result

    def keeps(self, optimizer: "Optimizer") -> bool:
        """Whether the update may happen; if not, gradients are cleared and the scale is halved."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        for parameter in self.watch(parameters):  # in no root: its gradient is still scaled, this once
            if parameter.grad is not None:
                parameter.grad.div_(self.scale)
        if not _all_finite([p.grad for p in parameters if p.grad is not None]):
            for parameter in parameters:
                parameter.grad = None
            self.skipped_steps += 1
            self.scale *= BACKOFF
            self._good_steps.clear()
            return False
        self._good_steps[optimizer] = self._good_steps.get(optimizer, 0) + 1
        if self._good_steps[optimizer] >= self._growth_interval:
            self.scale *= GROWTH
            self._good_steps.clear()
        return True

    def _is_watched(self, parameter: "Tensor") -> bool:
        known = self._watched.get(id(parameter))
        return known is not None and known() is parameter

    def _starting(self, scale: float) -> "Callable[[Tensor], None]":
        """A hook that runs first in a scaled backward; other backwards leave gradients alone."""

        def start(gradient: "Tensor") -> None:
            from torch.autograd import Variable

            self._in_backward = scale
            # torch's own wrappers (DDP, FSDP) learn of the end of a backward in the same way
            Variable._execution_engine.queue_callback(self._end)

        return start

    def _end(self) -> None:
        self._in_backward = None

    def _divided(self, gradient: "Tensor") -> "Tensor | None":
        return None if self._in_backward is None else gradient / self._in_backward


def _all_finite(gradients: "list[Tensor]") -> bool:
    import torch

    dense = [g.coalesce().values() if g.is_sparse else g for g in gradients]
    if not dense:
        return True
    return bool(torch.isfinite(torch.nn.utils.get_total_norm(dense, norm_type=float("inf"))))
