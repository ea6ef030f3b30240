"""Losses as the program computes them, caught where it calls backward."""

from _thread import get_ident
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from advisor.profiles.events import Run
from advisor.profiles.hooks.model.discovery import autocast_types
from advisor.profiles.hooks.optimizer.gradients import Gradients
from advisor.profiles.hooks.optimizer.reduction import is_sum_reduced
from advisor.profiles.hooks.optimizer.scaler import Scaler
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.step.clock import BACKWARD, Clock
from advisor.profiles.hooks.tensors import scalar

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

Record = tuple[list[list["Tensor"]], list["Tensor"], int]
"""Losses of each update, of each backward where there are none, and how many to keep."""
PENDING_LIMIT = 1024  # backwards kept for one update; no program accumulates more
CHECKS = 16  # first backwards that are looked at more closely


class Losses:
    """Records scalar losses, emits ``backward``, and files each loss under the update that uses it.

    Losses wait until an optimizer has updated. Those seen before its step are summed (accumulation); of
    those inside it only the first counts (LBFGS evaluates its closure many times). Nothing is read from
    the device before ``values``.

    Args:
        began: Called as the first backward begins, and outermost ones within an update.
        done: Called as it has ended, before the clock is told, until somebody sets it to ``None``.
        limit: How many updates to keep.

    Attributes:
        recording: Whether losses are kept, or read; ``close`` has nothing to do otherwise.
        settled: Whether a backward is only timed and counted.
        inspecting: While set, every loss is read from the device.
        inspected: Losses read so.
        gradients: What was seen of gradients meanwhile.
        nonfinite: Step of the first loss that was found not finite by that.
        sampled: Called in the first backwards.
    """

    def __init__(
        self,
        run: Run,
        clock: Clock,
        scope: Scope,
        began: Callable[[], None],
        done: Callable[[], None] | None,
        limit: int,
    ) -> None:
        import torch

        self._run = run
        self._clock = clock
        self._scope = scope
        self._began = began
        self.done = done
        self._limit = limit
        self._depth = 0
        self._checks = CHECKS
        self._outside: list[Tensor] = []
        self._inside: list[Tensor] = []
        self._each: list[Tensor] = []
        self._filed: list[list[Tensor]] = []
        self._first: int | None = None
        self.recording = True
        self.settled = False
        self._omitted = False
        self.inspecting = False
        self.gradients = Gradients(lambda: clock.updates)
        self.inspected = 0
        self.nonfinite: int | None = None
        self.sampled: Callable[[], None] = _nothing
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

    def begin_record(self, updates: int) -> Record:
        """Record the next ``updates`` updates apart from all before; at a step border.

        Returns:
            What was recorded before, for ``end_record``.
        """
        before = self._filed, self._each, self._limit
        self._filed, self._each, self._limit = [], [], updates
        self._resume()
        return before

    def end_record(self, before: Record) -> None:
        """Go on with an earlier record; at a step border."""
        self._filed, self._each, self._limit = before
        self._resume()

    def _resume(self) -> None:
        self._outside.clear()
        self._inside.clear()
        self.recording = True
        self.settled = False

    def inspect(self, on: bool) -> None:
        """Begin or end reading every loss."""
        self.inspecting = on
        self.gradients.inspect(on)
        self.recording = True
        self.settled = False

    def omit(self, on: bool) -> None:
        """From now on backward returns at once and nothing is recorded, or does what it did before."""
        self._omitted = on
        self.settled = False

    def close(self, optimizer: "Optimizer") -> None:
        """An update has ended: what was seen since the last one belongs to it."""
        if self._first is None:
            self._first = id(optimizer)
        if not self.recording:
            return
        self.gradients.updated(optimizer)
        if id(optimizer) == self._first and len(self._filed) < self._limit:
            group = [*self._outside, *self._inside[:1]]
            if group:
                self._filed.append(group)
        self._outside.clear()
        self._inside.clear()

    def _wrap_backward(self, original: Callable[..., None]) -> Callable[..., None]:
        run, clock, scope = self._run, self._clock, self._scope
        stack, spent, note, wall_ns = clock.stack, clock.spent, clock.spent.append, clock.wall_ns

        def backward(
            tensors: Any, grad_tensors: Any = None, retain_graph: Any = None, create_graph: bool = False,
            grad_variables: Any = None, inputs: Any = None, **more: Any,
        ) -> None:  # fmt: skip
            function = partial(original, **more) if more else original
            if self.settled and clock.plain and not (stack or create_graph) and get_ident() == scope.watched:
                if run.events and grad_tensors is None and "backward" in run.events:
                    tensors = _changed(run, tensors)
                self.backwards += 1
                self._depth = 1
                noted, began = len(spent), wall_ns()
                try:
                    function(tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs)
                finally:
                    took = wall_ns() - began
                    self._depth = 0
                    if len(spent) != noted:
                        took -= sum(spent[noted + 1 :: 2])
                    note("backward")
                    note(took)
                clock.backwards += 1
                return
            if not self.backwards:
                scope.settle()
            if self._depth or get_ident() != scope.watched:
                return function(tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs)
            self.backwards += 1
            if self._omitted:
                return self._leave_out()
            if clock.in_update or self.backwards == 1:
                self._began()
            if create_graph:
                self.own_transforms = True
            if self.recording:
                self._record(tensors)
            if run.events and grad_tensors is None and "backward" in run.events:
                tensors = _changed(run, tensors)
            self._depth = 1
            plain = not (create_graph or inputs or clock.in_update)
            clock.push("backward")
            try:
                with self.gradients.backward(tensors) if plain else nullcontext():
                    function(tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs)
            finally:
                self._depth = 0
                clock.pop()
            if self.done is not None:
                self.done()
            else:
                self.settled = not self.recording
            if clock.rank > BACKWARD:
                clock.backwards += 1
            else:
                clock.backward_done()

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

    def _leave_out(self) -> None:
        if self.done is not None:
            self.done()
        self._clock.backward_done()

    def _record(self, tensors: Any) -> None:
        loss = scalar(tensors)
        if self._checks:
            self._check(loss)
        if loss is None:
            return
        if self.inspecting:
            self.inspected += 1
            if self.nonfinite is None and not bool(loss.detach().isfinite()):
                self.nonfinite = self._clock.steps
        if len(self._filed) >= self._limit:
            self.recording = self.inspecting or self._checks > 0
            return
        seen = self._inside if self._clock.in_update else self._outside
        is_alone = self._first is None and len(self._each) < self._limit
        if self._first is None and not is_alone:
            return  # no optimizer will come; small tensors kept between large ones fragment the heap
        if len(seen) >= PENDING_LIMIT and not is_alone:
            return
        # cloned: the program may change it in place, and CUDA graphs reuse its memory
        kept = self.scaler.before_scaling(loss).detach().clone()
        if len(seen) < PENDING_LIMIT:
            seen.append(kept)
        if is_alone:
            self._each.append(kept)

    def _check(self, loss: "Tensor | None") -> None:
        if self._checks == CHECKS and loss is not None:
            self.sum_reduced = is_sum_reduced(loss)
        self._checks -= 1
        self.own_autocast |= bool(autocast_types())
        self.sampled()


def _changed(run: Run, tensors: Any) -> Any:
    loss = scalar(tensors)
    if loss is None:
        return tensors
    changed = run.backward(loss)
    return changed if loss is tensors else [changed]


def _nothing() -> None:
    """Nobody wants to be called."""


def _is_torch(module: str) -> bool:
    """Whether torch itself calls; ``torch.func`` does so on the program's behalf."""
    return module.startswith("torch.") and module != "torch._functorch.eager_transforms"
