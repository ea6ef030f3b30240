"""The root modules of a program, and the events around their forward.

Roots come from two sources: modules called from outside any other during the first iteration, and
modules that own what an optimizer updates. Only the outermost root of a call emits events.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.clock import Clock
from advisor.profiles.hooks.discovery import Discovery, autocast_enabled, dynamo_at_work
from advisor.profiles.hooks.model_facts import root_facts
from advisor.profiles.hooks.owners import member_ids, owner
from advisor.profiles.hooks.passage import Passage
from advisor.profiles.hooks.patches import Patch, Scope, untraced
from advisor.profiles.hooks.tensors import each_tensor, leading_size
from advisor.profiles.profile import RootFacts
from advisor.profiles.run import Run

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

AUTOCAST_CHECKS = 16  # forwards in which the program's own autocast is looked for


@dataclass
class Root:
    """A root module, held weakly: a program that drops its model gets the memory back."""

    module: "weakref.ref[Module]"
    facts: RootFacts
    members: frozenset[int]
    prepared: bool = False
    called: bool = False
    function: Callable[..., Any] | None = None
    takes_4d: bool | None = None


class Roots:
    """Finds roots and emits ``model``, ``call``, ``forward`` and ``output`` for them.

    The classes of roots have their ``forward`` wrapped; the wrapper acts for roots alone, so that
    pickling, ``deepcopy``, signatures and scripting see nothing of it.
    """

    def __init__(self, run: Run, clock: Clock, scope: Scope) -> None:
        import torch

        self._is_grad_enabled = torch.is_grad_enabled
        self._run = run
        self._clock = clock
        self._scope = scope
        self._roots: dict[int, Root] = {}
        self._seen: list[Root] = []
        self._sampled: Root | None = None
        self._busy = False
        self._ours = False
        self._checks = AUTOCAST_CHECKS
        self._slots: list[Passage] = []
        self.classes: dict[type, Patch] = {}
        self.discovery = Discovery(scope, self._found, self._evaluate, lambda: self._busy, self._autocast)
        self.own_autocast = False
        self.evaluation_s = 0.0
        self.samples = 0

    def install(self) -> None:
        """Look for modules that the program calls, from now until its first backward."""
        self.discovery.install()

    def remove(self) -> None:
        """Leave every module and class as it was."""
        self.discovery.remove()
        for patch in self.classes.values():
            patch.remove()
        for slot in self._slots:
            slot.remove()
        self.classes.clear()
        self._slots.clear()
        self._roots.clear()

    def settle(self) -> None:
        """The first backward or update begins: modules called from now on are no new roots."""
        self.discovery.remove()

    def own(self, optimizer: "Optimizer") -> None:
        """Make a root of the module that owns what an optimizer updates, before its first update.

        One that neither contains nor belongs to a known root meets the event ``model`` at once.
        """
        module = owner(optimizer)
        if module is None or id(module) in self._roots:
            return
        # A module that only compiled code of the program calls meets no wrapper; it would compile anew.
        is_hidden = dynamo_at_work() and not self._run.has("call")
        root = self._adopt(module, wrapped=not is_hidden)
        self._sampled = None  # the owner may be what is called from outside
        if not root.prepared:
            self._prepare(root, module)

    def facts(self) -> tuple[RootFacts, ...]:
        """The outermost of all roots, in the order in which they were found."""
        outermost = [
            root for root in self._seen
            if not any(root.members < other.members for other in self._seen)
        ]  # fmt: skip
        return tuple(replace(root.facts, takes_4d_input=self._takes_4d(root)) for root in outermost)

    def _takes_4d(self, root: Root) -> bool | None:
        answers = [inner.takes_4d for inner in self._seen if inner.members <= root.members]
        known = [answer for answer in answers if answer is not None]
        return any(known) if known else None

    def _autocast(self) -> None:
        self.own_autocast |= not self._ours

    def _found(self, module: "Module") -> None:
        if id(module) not in self._roots:
            self._adopt(module)

    def _adopt(self, module: "Module", wrapped: bool = True) -> Root:
        key = id(module)
        members = member_ids(module)
        related = any(
            other.prepared and (key in other.members or members & {other_key})
            for other_key, other in self._roots.items()
        )
        root = Root(
            weakref.ref(module, lambda _: self._roots.pop(key, None)), root_facts(module), members, related
        )
        self._roots[key] = root
        self._seen.append(root)
        if wrapped:
            self._wrap(root, module)
        return root

    def _wrap(self, root: Root, module: "Module") -> None:
        slot = Passage.place(module)
        if slot is not None:
            self._slots.append(Passage(module, slot, lambda m, f, a, k: self._pass(root, m, f, a, k)))
        elif type(module) not in self.classes:
            patch = Patch(type(module), "forward", self._wrapping(type(module)))
            self.classes[type(module)] = patch
            patch.install()

    def _pass(
        self, root: Root, module: "Module", function: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        if self._busy or not self._scope.here():
            return function(*args, **kwargs)
        return self._enter(root, module, function, args, kwargs)

    def _wrapping(self, kind: type) -> Callable[[Any], Callable[..., Any]]:
        def make(original: Any) -> Callable[..., Any]:
            return _class_wrap(kind, original, self._scope, lambda: self._busy, self._roots, self._enter)

        return make

    def _enter(
        self, root: Root, module: "Module", function: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        if not (module.training and self._is_grad_enabled()):
            return self._evaluate(root.function or function, args, kwargs)
        self._busy = True
        try:
            if not root.called:
                self._first_call(root, module, function, args, kwargs)
            output = self._train(module, root.function or function, args, kwargs)
        finally:
            self._busy = False
        if self._sampled is None:
            self._sampled = root
        if self._sampled is root:
            samples = leading_size((args, kwargs))
            self.samples += samples
            self._clock.count_samples(root=samples)
        self._clock.forward_done()
        return output

    def _train(self, module: "Module", function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        run = self._run
        if self._checks:
            self._checks -= 1
            self.own_autocast |= autocast_enabled()
        self._clock.push("forward")
        try:
            if run.has("forward"):
                self._ours = True
                with run.forward(module):
                    self._ours = False
                    output = function(*args, **kwargs)
            else:
                output = function(*args, **kwargs)
            return run.output(module, output) if run.has("output") else output
        finally:
            self._ours = False
            self._clock.pop()

    def _evaluate(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        self._clock.flag("evaluation")
        self._clock.push("evaluation")
        self._busy = True
        try:
            return function(*args, **kwargs)
        finally:
            self._busy = False
            self.evaluation_s += self._clock.pop() / 1e9

    def _first_call(
        self, root: Root, module: "Module", function: Callable[..., Any], args: Any, kwargs: Any
    ) -> None:
        root.called = True
        root.takes_4d = any(tensor.ndim == 4 for tensor in each_tensor((args, kwargs)))
        if not root.prepared:
            self._prepare(root, module)
        if root.function is None and not self._run.has("call"):
            return
        changed = self._run.call(root.function or function, module)
        root.function = None if changed is function else changed

    def _prepare(self, root: Root, module: "Module") -> None:
        root.prepared = True
        changed = self._run.model(module)
        if changed is not module:
            root.function = changed  # a wrapper around the root, which calls the root inside


def _class_wrap(
    kind: type,
    original: Any,
    scope: Scope,
    busy: Callable[[], bool],
    roots: dict[int, Root],
    enter: Callable[..., Any],
) -> Callable[..., Any]:
    """A ``forward`` for a class: as before for every instance that is no root, or is one already running."""
    from torch.compiler import is_compiling

    plain = original if isinstance(original, FunctionType) else _through_descriptor(original)

    def forward(self, *args, **kwargs):  # type: ignore[no-untyped-def]  # stands for any signature
        if is_compiling() or busy() or not scope.here():
            return plain(self, *args, **kwargs)
        root = roots.get(id(self))
        if root is None or type(self) is not kind or root.module() is not self:
            return plain(self, *args, **kwargs)
        return enter(root, self, original.__get__(self, kind), args, kwargs)

    if not isinstance(original, FunctionType):
        return untraced(forward)
    # Scripting looks names up in the globals of what it finds here: they must be the program's own.
    named = FunctionType(forward.__code__, original.__globals__, closure=forward.__closure__)
    return untraced(named)


def _through_descriptor(original: Any) -> Callable[..., Any]:
    def plain(module: Any, *args: Any, **kwargs: Any) -> Any:
        return original.__get__(module, type(module))(*args, **kwargs)

    return plain
