"""Losses as the program computes them, caught where it calls backward."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.clock import Clock
from advisor.profiles.hooks.discovery import autocast_enabled
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.reduction import is_sum_reduced
from advisor.profiles.hooks.tensors import tensor_type
from advisor.profiles.run import Run

if TYPE_CHECKING:
    from torch import Tensor

PENDING_LIMIT = 1024  # backwards kept for one update; no program accumulates more
AUTOCAST_CHECKS = 16  # backwards in which the program's own autocast is looked for


class Losses:
    """Records scalar losses, emits ``backward``, and files each loss under the update that uses it.

    Losses wait until an optimizer has updated. Those seen before its step are summed (accumulation); of
    those inside it only the first counts (LBFGS evaluates its closure many times). Nothing is read from
    the device before ``values``.

    Args:
        began: Called as every outermost backward begins.
        done: Called as it has ended, before the clock is told.
        limit: How many updates to keep.
    """

    def __init__(
        self,
        run: Run,
        clock: Clock,
        scope: Scope,
        began: Callable[[], None],
        done: Callable[[], None],
        limit: int,
    ) -> None:
        import torch

        self._run = run
        self._clock = clock
        self._scope = scope
        self._began = began
        self._done = done
        self._limit = limit
        self._depth = 0
        self._checks = AUTOCAST_CHECKS
        self._outside: list[Tensor] = []
        self._inside: list[Tensor] = []
        self._each: list[Tensor] = []
        self._filed: list[list[Tensor]] = []
        self._first: int | None = None
        self.backwards = 0
        self.own_autocast = False
        self.own_transforms = False
        self.sum_reduced: bool | None = None
        self.patches = [
            Patch(torch.autograd, "backward", self._wrap_backward),
            Patch(torch.autograd, "grad", self._wrap_grad),
        ]
        self.scaler = Scaler(clock, scope, self.close)

    def install(self) -> None:
        """Record from now on."""
        for patch in [*self.patches, *self.scaler.patches]:
            patch.install()

    def remove(self) -> None:
        """Stop recording."""
        for patch in [*self.patches, *self.scaler.patches]:
            patch.remove()

    def values(self) -> list[float]:
        """Losses per update of the optimizer seen first; without optimizers, per backward."""
        if self._first is None:
            return [float(loss) for loss in self._each]
        return [sum(float(loss) for loss in group) for group in self._filed]

    def close(self, optimizer: object) -> None:
        """An update has ended: what was seen since the last one belongs to it."""
        if self._first is None:
            self._first = id(optimizer)
        if id(optimizer) == self._first and len(self._filed) < self._limit:
            group = [*self._outside, *self._inside[:1]]
            if group:
                self._filed.append(group)
        self._outside.clear()
        self._inside.clear()

    def _wrap_backward(self, original: Callable[..., None]) -> Callable[..., None]:
        def backward(
            tensors: Any, grad_tensors: Any = None, retain_graph: Any = None, create_graph: bool = False,
            *args: Any, **kwargs: Any,
        ) -> None:  # fmt: skip
            self._scope.settle()
            if self._depth or not self._scope.here():
                return original(tensors, grad_tensors, retain_graph, create_graph, *args, **kwargs)
            self._began()
            self.backwards += 1
            self.own_transforms |= bool(create_graph)
            loss = _scalar(tensors)
            if loss is not None:
                self._record(loss)
                if grad_tensors is None and self._run.has("backward"):
                    changed = self._run.backward(loss)
                    tensors = changed if loss is tensors else [changed]
            self._depth += 1
            self._clock.push("backward")
            try:
                original(tensors, grad_tensors, retain_graph, create_graph, *args, **kwargs)
            finally:
                self._depth -= 1
                self._clock.pop()
            self._done()
            self._clock.backward_done()

        return backward

    def _wrap_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        import sys

        def grad(*args: Any, **kwargs: Any) -> Any:
            if self._depth or not self._scope.here() or _is_torch(sys._getframe(1).f_globals["__name__"]):
                return original(*args, **kwargs)
            self.own_transforms = True
            self._depth += 1
            self._clock.push("backward")
            try:
                return original(*args, **kwargs)
            finally:
                self._depth -= 1
                self._clock.pop()

        return grad

    def _record(self, loss: "Tensor") -> None:
        if self._checks:
            if self._checks == AUTOCAST_CHECKS:
                self.sum_reduced = is_sum_reduced(loss)
            self._checks -= 1
            self.own_autocast |= autocast_enabled()
        if len(self._filed) >= self._limit:
            return
        # cloned: the program may change it in place, and CUDA graphs reuse its memory
        kept = self.scaler.before_scaling(loss).detach().clone()
        seen = self._inside if self._clock.in_update else self._outside
        if len(seen) < PENDING_LIMIT:
            seen.append(kept)
        if self._first is None and len(self._each) < self._limit:
            self._each.append(kept)


class Scaler:
    """The program's own ``GradScaler``: the loss before scaling, and updates that it skips.

    Args:
        close: Called with the optimizer of a skipped update, whose losses were for nothing.
    """

    def __init__(self, clock: Clock, scope: Scope, close: Callable[[object], None]) -> None:
        from torch.amp.grad_scaler import GradScaler

        self._clock = clock
        self._scope = scope
        self._close = close
        self._scaled: tuple[Tensor, Tensor] | None = None
        self.updates = 0
        self.used = False
        self.patches = [
            Patch(GradScaler, "scale", self._wrap_scale),
            Patch(GradScaler, "step", self._wrap_step),
        ]

    def before_scaling(self, loss: "Tensor") -> "Tensor":
        """The loss that was scaled into ``loss``, or ``loss`` itself."""
        pair, self._scaled = self._scaled, None
        return pair[1] if pair is not None and pair[0] is loss else loss

    def _wrap_scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scale(scaler: Any, outputs: Any) -> Any:
            scaled = original(scaler, outputs)
            if scaler._enabled and self._scope.here():
                self.used = True
                loss = _scalar(outputs)
                if loss is not None and loss is outputs:
                    self._scaled = (scaled, loss.detach())
            return scaled

        return scale

    def _wrap_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = self.updates
            result = original(scaler, optimizer, *args, **kwargs)
            if self._scope.here() and self.updates == before:  # no hook fires for a skipped update
                self._close(optimizer)
                self._clock.flag("skipped_update")
            return result

        return step


def _scalar(tensors: Any) -> "Tensor | None":
    if isinstance(tensors, (list, tuple)) and len(tensors) == 1:
        tensors = tensors[0]
    return tensors if isinstance(tensors, tensor_type()) and tensors.numel() == 1 else None


def _is_torch(module: str) -> bool:
    """Whether torch itself calls; ``torch.func`` does so on the program's behalf."""
    return module.startswith("torch.") and module != "torch._functorch.eager_transforms"
