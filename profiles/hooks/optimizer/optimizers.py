"""Optimizers: their settings, and the events around every update."""

import sys
import weakref
from _thread import get_ident
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Location, OptimizerFacts
from advisor.profiles.hooks.optimizer.optimizer_facts import (
    Known,
    described,
    first_nonfinite,
    optimizer_facts,
    parameters,
    total_norm,
)
from advisor.profiles.hooks.patches import Patch, Scope, untraced
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.user_lines import user_location

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer
    from torch.utils.hooks import RemovableHandle

SEQUENCE_LIMIT = 512  # updates whose order is kept
LOOKED_AT = 4  # first updates whose gradients are looked for; then one of LOOKED_EVERY
LOOKED_EVERY = 64
TIMED_CLEARS = 64  # calls of zero_grad that are timed


class Optimizers:
    """Emits ``optimizer``, ``gradients``, ``step`` and ``clear`` by torch's global step hooks.

    Only the outermost of nested updates counts: some optimizers wrap others, some call the step of
    their base class.

    Args:
        first: Called with optimizers that have not been seen, before the first of them updates.
        closed: Called with an optimizer whose update has ended, before the clock is told, until it gives
            that it need not be called again, and after ``inspect``.

    Attributes:
        norm_limit: How many gradient norms of the first one to keep.
        keeps_gradients: While set, ``zero_grad`` does nothing.
        nonfinite: Step and parameter of the first such gradient.
        seen: Whether any optimizer has updated, or is about to.
        update_ns: Time of all updates since ``time_updates``.
        step_code: The code of every ``step`` that torch has put its hooks around.
    """

    def __init__(
        self,
        run: Run,
        clock: Clock,
        scope: Scope,
        first: Callable[["Optimizer"], None],
        closed: Callable[["Optimizer"], bool],
    ) -> None:
        from torch.nn import Module
        from torch.optim import Optimizer

        self._run = run
        self._clock = clock
        self._scope = scope
        self._first = first
        self._closed = closed
        self._handles: list[RemovableHandle] = []
        self._open: list[AbstractContextManager[Any] | None] = []
        self._records: dict[int, Known] = {}  # with strong references: an identity must not be used again
        self._made_at: weakref.WeakKeyDictionary[Optimizer, Location | None] = weakref.WeakKeyDictionary()
        self._made_after: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()
        self._in_backward = False
        self._clears_left = TIMED_CLEARS
        self._began_ns = 0
        self.norm_limit = 0
        self.keeps_gradients = False
        self._inspecting = False
        self.nonfinite: tuple[int, Tensor] | None = None
        self._timed = False
        self.update_ns = 0
        self.seen = False
        self.norms: list[Tensor] = []
        self.sequence: list[int] = []
        self.patches = [
            Patch(Optimizer, "__init__", self._wrap_init),
            Patch(Optimizer, "zero_grad", self._wrap_zero_grad),
            Patch(Module, "zero_grad", self._wrap_module_zero_grad),
        ]
        self.step_code = Optimizer.profile_hook_step(len).__code__

    def install(self) -> None:
        """Watch updates from now on."""
        from torch.optim import optimizer

        for patch in self.patches:
            patch.install()
        self._handles = [
            optimizer.register_optimizer_step_pre_hook(self._before()),
            optimizer.register_optimizer_step_post_hook(self._after()),
        ]

    def inspect(self, on: bool) -> None:
        """Begin or end looking for gradients that are not finite at every update; it reads the device."""
        self._inspecting = on
        self._unsettle()

    def record_norms(self, norms: "list[Tensor]", limit: int) -> None:
        """Add gradient norms to ``norms`` from now on, until it has ``limit``."""
        self.norms, self.norm_limit = norms, limit
        self._unsettle()

    def time_updates(self) -> None:
        """Sum the time of updates from now on."""
        self._timed = True
        self._unsettle()

    def _unsettle(self) -> None:
        for record in self._records.values():
            record.settled = False

    def remove(self) -> None:
        """Stop watching."""
        for patch in self.patches:
            patch.remove()
        for handle in self._handles:
            handle.remove()
        self._handles = []

    @property
    def known(self) -> "list[Optimizer]":
        """Those that have updated, in the order of their first updates."""
        return [record.optimizer for record in self._records.values()]

    @property
    def updates(self) -> int:
        """Updates of the one seen first."""
        return next((record.updates for record in self._records.values()), 0)

    @property
    def facts(self) -> list[OptimizerFacts]:
        """Their settings before the first update, and what they hold and have seen until now."""
        return [described(record, self._made_at.get(record.optimizer)) for record in self._records.values()]

    @property
    def without_gradient(self) -> frozenset[int]:
        """Identities of parameters that had no gradient in any update looked at."""
        return frozenset(key for record in self._records.values() for key in record.lacking)

    def indispensable(self) -> str | None:
        """Why updates cannot be left out of a step; ``None`` where they can."""
        if not self._records:
            return "the program uses no torch optimizer"
        if any(record.settings.closure for record in self._records.values()):
            return "the optimizer calls a closure"
        return "updates run inside backward" if self._in_backward else None

    def _wrap_init(self, original: Callable[..., None]) -> Callable[..., None]:
        def __init__(optimizer: "Optimizer", *args: Any, **kwargs: Any) -> None:
            if self._scope.active:
                self._clock.expect("optimizer")
                self._made_at[optimizer] = user_location()
                self._made_after[optimizer] = sum(record.updates for record in self._records.values())
            original(optimizer, *args, **kwargs)

        return __init__

    def _wrap_zero_grad(self, original: Callable[..., None]) -> Callable[..., None]:
        run = self._run

        def zero_grad(optimizer: "Optimizer", *args: Any, **kwargs: Any) -> None:
            if self.keeps_gradients and self._scope.here():
                return
            if run.events and "clear" in run.events and self._scope.here():
                run.clear(optimizer)
            if self._clears_left:
                record = self._records.get(id(optimizer))
                self._clear(original, optimizer, record, args, kwargs)
            elif args or kwargs:
                original(optimizer, *args, **kwargs)
            else:
                original(optimizer)

        return untraced(zero_grad)

    def _wrap_module_zero_grad(self, original: Callable[..., None]) -> Callable[..., None]:
        def zero_grad(module: "Module", *args: Any, **kwargs: Any) -> None:
            if self.keeps_gradients and self._scope.here():
                return
            if "clear" in self._run.events and self._scope.here():
                record = self._of_module(module)
                if record is not None:
                    self._run.clear(record.optimizer)
            if self._clears_left:
                self._clear(original, module, self._of_module(module), args, kwargs)
            else:
                original(module, *args, **kwargs)

        return untraced(zero_grad)

    def _of_module(self, module: "Module") -> Known | None:
        """The first optimizer that updates the module's first parameter."""
        first = next(iter(module.parameters()), None)
        for record in self._records.values():
            if any(parameter is first for parameter in parameters(record.optimizer)):
                return record
        return None

    def _clear(
        self, original: Callable[..., None], subject: Any, record: Known | None, args: Any, kwargs: Any
    ) -> None:
        began = perf_counter_ns()
        original(subject, *args, **kwargs)
        if record is not None and self._scope.here():
            record.clear_ns += perf_counter_ns() - began
            record.cleared_to = record.updates
            if record.cleared_from is None:
                record.cleared_from = record.updates
            record.zeroes = not (args[0] if args else kwargs.get("set_to_none", True))
            self._clears_left -= 1

    def _before(self) -> Callable[["Optimizer", Any, Any], None]:
        clock, scope, run, records, open_ = self._clock, self._scope, self._run, self._records, self._open
        stack, wall_ns = clock.stack, clock.wall_ns

        def before(optimizer: "Optimizer", args: Any, kwargs: Any) -> None:
            record = records.get(id(optimizer))
            if record is None or not record.settled or not clock.plain or stack:
                self._begin(optimizer, record, args, kwargs)
            elif get_ident() == scope.watched:
                open_.append(self._enter(optimizer, self._is_skipped(optimizer)) if run.events else None)
                clock.in_update = 1
                stack.append(["optimizer", wall_ns(), 0])

        return untraced(before, below=True)

    def _begin(self, optimizer: "Optimizer", record: Known | None, args: Any, kwargs: Any) -> None:
        if not self.seen:
            self._scope.settle()
        if not self._scope.here():
            return
        if self._open:
            self._drop_aborted()
        if record is None:
            record = self._meet(optimizer, args, kwargs)
        if self._open:
            self._open.append(None)
            return
        skipped = self._is_skipped(optimizer)
        looks = record.lacking or self.norm_limit or self._inspecting
        if looks and not record.closure:
            self._look(record)
        self._open.append(self._enter(optimizer, skipped) if self._run.events else None)
        self._clock.begin_update()
        if self._timed:
            self._began_ns = perf_counter_ns()

    def _after(self) -> Callable[["Optimizer", Any, Any], None]:
        clock, scope, records, open_ = self._clock, self._scope, self._records, self._open
        sequence = self.sequence

        def after(optimizer: "Optimizer", args: Any, kwargs: Any) -> None:
            if not open_ or get_ident() != scope.watched:
                return
            context = open_.pop()
            if open_:
                return
            record = records[id(optimizer)]
            if not record.settled or not clock.plain:
                self._end(optimizer, record, context)
                return
            if context is not None:
                context.__exit__(None, None, None)
            record.updates += 1
            if len(sequence) < SEQUENCE_LIMIT:
                sequence.append(record.position)
            clock.end_plain_update()

        return untraced(after, below=True)

    def _end(
        self, optimizer: "Optimizer", record: Known, context: AbstractContextManager[Any] | None
    ) -> None:
        if self._timed:
            self.update_ns += perf_counter_ns() - self._began_ns
        if context is not None:
            context.__exit__(None, None, None)
        if record.closure:  # which has computed the gradients only now
            self._look(record)
        record.updates += 1
        if len(self.sequence) < SEQUENCE_LIMIT:
            self.sequence.append(record.position)
        record.settled = self._closed(optimizer) and not self._wants(record)
        self._clock.end_update(optimizer)

    def _wants(self, record: Known) -> bool:
        """Whether there is more to do at an update than to time and count it."""
        looks = bool(record.lacking) or len(self.norms) < self.norm_limit or self._inspecting or self._timed
        return looks or record.closure or not self._clock.closes(record.optimizer)

    def _is_skipped(self, optimizer: "Optimizer") -> bool:
        return "gradients" in self._run.events and not self._run.gradients(optimizer)

    def _enter(self, optimizer: "Optimizer", skipped: bool) -> AbstractContextManager[Any] | None:
        """Let subscribers act before an update; gives what is to be left after it."""
        if skipped:
            self._clear_gradients(optimizer)
            self._clock.flag("skipped_update")
        run = self._run
        context = run.step(optimizer) if "step" in run.events else None
        if context is not None:
            context.__enter__()
        return context

    def _meet(self, optimizer: "Optimizer", args: Any, kwargs: Any) -> Known:
        before = self._predecessor(optimizer)
        if before is not None:
            earlier = before.optimizer
            self._clock.replaces(optimizer, earlier)
            before.optimizer, before.renewed = optimizer, before.renewed + 1
            known = list(self._records.values())  # in their order, which is that of positions
            self._records.clear()
            self._records.update({id(each.optimizer): each for each in known})
            self._run.replaced(optimizer, earlier)
            return before
        closure = _has_closure(args, kwargs)
        record = Known(
            optimizer,
            len(self._records),
            optimizer_facts(optimizer, closure=closure),
            closure,
            {id(parameter): parameter for parameter in parameters(optimizer)},
        )
        self._records[id(optimizer)] = record
        self.seen = True
        self._in_backward |= self._clock.phase == "backward"
        self._first(optimizer)
        self._run.optimizer(optimizer)
        return record

    def _predecessor(self, optimizer: "Optimizer") -> Known | None:
        """What updated the same, and was made at the same line, before this one was made."""
        if not self._made_after.get(optimizer):
            return None
        place, first = self._made_at.get(optimizer), next(parameters(optimizer), None)
        kin = (
            record
            for record in self._records.values()
            if record.updates
            and self._made_at.get(record.optimizer) == place
            and type(record.optimizer) is type(optimizer)
            and next(parameters(record.optimizer), None) is first
        )
        return next(kin, None) if place is not None else None

    def _drop_aborted(self) -> None:
        """Forget updates that an exception left: torch calls no hook for them."""
        running = 0
        frame = sys._getframe(1)
        while frame is not None and frame.f_back is not None:
            frame = frame.f_back
            running += frame.f_code is self.step_code
        while len(self._open) > running - 1:
            context = self._open.pop()
            if context is not None:
                context.__exit__(None, None, None)
            if not self._open:
                self._clock.cancel_update()

    def _clear_gradients(self, optimizer: "Optimizer") -> None:
        for parameter in parameters(optimizer):
            parameter.grad = None

    def _look(self, record: Known) -> None:
        """At the gradients of an update, as far as it is worth its time."""
        if record.lacking and (record.updates < LOOKED_AT or record.updates % LOOKED_EVERY == 0):
            held = record.lacking
            record.lacking = {key: each for key, each in held.items() if each.grad is None}
        if self._inspecting and self.nonfinite is None:
            found = first_nonfinite(record.optimizer)
            self.nonfinite = None if found is None else (self._clock.steps, found)
        if len(self.norms) < self.norm_limit and record.position == 0:
            norm = total_norm(record.optimizer)
            if norm is not None:
                self.norms.append(norm)


def _has_closure(args: Any, kwargs: Any) -> bool:
    return any(callable(value) for value in (*args[1:], *kwargs.values()))
