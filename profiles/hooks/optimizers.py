"""Optimizers: their settings, and the events around every update."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.clock import Clock
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.profile import OptimizerFacts
from advisor.profiles.run import Run

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer
    from torch.utils.hooks import RemovableHandle

SEQUENCE_LIMIT = 512  # updates whose order is kept


class Optimizers:
    """Emits ``optimizer``, ``gradients``, ``step`` and ``clear`` by torch's global step hooks.

    Only the outermost of nested updates counts: some optimizers wrap others, some call the step of
    their base class.

    ``norm_limit`` is how many gradient norms of the first one to keep.

    Args:
        first: Called with optimizers that have not been seen, before the first of them updates.
        closed: Called with an optimizer whose update has ended, before the clock is told.
    """

    def __init__(
        self,
        run: Run,
        clock: Clock,
        scope: Scope,
        first: Callable[["Optimizer"], None],
        closed: Callable[["Optimizer"], None],
    ) -> None:
        from torch.optim import Optimizer

        self._run = run
        self._clock = clock
        self._scope = scope
        self._first = first
        self._closed = closed
        self._handles: list[RemovableHandle] = []
        self._open: list[AbstractContextManager[Any] | None] = []
        self._known: list[Optimizer] = []  # strong: an identity must not be used again
        self._positions: dict[int, int] = {}
        self.norm_limit = 0
        self.norms: list[Tensor] = []
        self.facts: list[OptimizerFacts] = []
        self.sequence: list[int] = []
        self.updates = 0
        self.patches = [
            Patch(Optimizer, "__init__", self._wrap_init),
            Patch(Optimizer, "zero_grad", self._wrap_zero_grad),
        ]
        self._step_code = Optimizer.profile_hook_step(len).__code__  # that of every hooked step

    def install(self) -> None:
        """Watch updates from now on."""
        from torch.optim import optimizer

        for patch in self.patches:
            patch.install()
        self._handles = [
            optimizer.register_optimizer_step_pre_hook(self._before),
            optimizer.register_optimizer_step_post_hook(self._after),
        ]

    def remove(self) -> None:
        """Stop watching."""
        for patch in self.patches:
            patch.remove()
        for handle in self._handles:
            handle.remove()
        self._handles = []

    @property
    def hooks_lost(self) -> bool:
        """Whether someone has cleared torch's global step hooks."""
        from torch.optim import optimizer

        return bool(self._handles) and (
            self._handles[0].id not in optimizer._global_optimizer_pre_hooks
            or self._handles[1].id not in optimizer._global_optimizer_post_hooks
        )

    @property
    def seen(self) -> bool:
        """Whether any optimizer has updated, or is about to."""
        return bool(self._known)

    def _wrap_init(self, original: Callable[..., None]) -> Callable[..., None]:
        def __init__(optimizer: "Optimizer", *args: Any, **kwargs: Any) -> None:
            if self._scope.active:
                self._clock.expect("optimizer")
            original(optimizer, *args, **kwargs)

        return __init__

    def _wrap_zero_grad(self, original: Callable[..., None]) -> Callable[..., None]:
        def zero_grad(optimizer: "Optimizer", *args: Any, **kwargs: Any) -> None:
            if self._run.has("clear") and self._scope.here():
                self._run.clear(optimizer)
            original(optimizer, *args, **kwargs)

        return zero_grad

    def _before(self, optimizer: "Optimizer", args: Any, kwargs: Any) -> None:
        self._scope.settle()
        if not self._scope.here():
            return
        if self._open:
            self._drop_aborted()
        if id(optimizer) not in self._positions:
            self._meet(optimizer, args, kwargs)
        if self._open:
            self._open.append(None)
            return
        skipped = self._run.has("gradients") and not self._run.gradients(optimizer)
        if self.norm_limit and not _has_closure(args, kwargs):
            self._measure_norm(optimizer)
        if skipped:
            self._clear_gradients(optimizer)
            self._clock.flag("skipped_update")
        context = self._run.step(optimizer) if self._run.has("step") else None
        if context is not None:
            context.__enter__()
        self._open.append(context)
        self._clock.begin_update()

    def _after(self, optimizer: "Optimizer", args: Any, kwargs: Any) -> None:
        if not self._open or not self._scope.here():
            return
        context = self._open.pop()
        if self._open:
            return
        if context is not None:
            context.__exit__(None, None, None)
        if self.norm_limit and _has_closure(args, kwargs):  # which has computed the gradients only now
            self._measure_norm(optimizer)
        position = self._positions[id(optimizer)]
        if len(self.sequence) < SEQUENCE_LIMIT:
            self.sequence.append(position)
        self.updates += position == 0
        self._closed(optimizer)
        self._clock.end_update(optimizer)

    def _meet(self, optimizer: "Optimizer", args: Any, kwargs: Any) -> None:
        self._positions[id(optimizer)] = len(self._known)
        self._known.append(optimizer)
        self.facts.append(optimizer_facts(optimizer, closure=_has_closure(args, kwargs)))
        self._first(optimizer)
        self._run.optimizer(optimizer)

    def _drop_aborted(self) -> None:
        """Forget updates that an exception left: torch calls no hook for them."""
        running = 0
        frame = sys._getframe(1)
        while frame is not None and frame.f_back is not None:
            frame = frame.f_back
            running += frame.f_code is self._step_code
        while len(self._open) > running - 1:
            context = self._open.pop()
            if context is not None:
                context.__exit__(None, None, None)
            if not self._open:
                self._clock.cancel_update()

    def _clear_gradients(self, optimizer: "Optimizer") -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def _measure_norm(self, optimizer: "Optimizer") -> None:
        if len(self.norms) < self.norm_limit and optimizer is self._known[0]:
            norm = total_norm(optimizer)
            if norm is not None:
                self.norms.append(norm)


def optimizer_facts(optimizer: "Optimizer", closure: bool = False) -> OptimizerFacts:
    """An optimizer's settings as the program made them, read before its first update."""
    group = optimizer.param_groups[0]
    rate = group.get("lr")
    return OptimizerFacts(
        name=type(optimizer).__name__,
        lr=None if rate is None else float(rate),
        foreach=group.get("foreach"),
        fused=group.get("fused"),
        has_foreach="foreach" in group,
        has_fused="fused" in group,
        differentiable=bool(group.get("differentiable", False)),
        sparse_gradients=any(
            parameter.grad is not None and parameter.grad.is_sparse
            for each in optimizer.param_groups for parameter in each["params"]
        ),
        closure=closure,
        group_count=len(optimizer.param_groups),
    )  # fmt: skip


def total_norm(optimizer: "Optimizer") -> "Tensor | None":
    """Euclidean norm over all gradients of an optimizer, left on the device; ``None`` without any."""
    import torch

    gradients = [
        parameter.grad.detach()
        for group in optimizer.param_groups for parameter in group["params"] if parameter.grad is not None
    ]  # fmt: skip
    if not gradients:
        return None
    dense = [gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in gradients]
    return torch.nn.utils.get_total_norm(dense)


def _has_closure(args: Any, kwargs: Any) -> bool:
    return any(callable(value) for value in (*args[1:], *kwargs.values()))
