"""The root modules of a program, and the events around their forward.

Roots come from two sources: modules called from outside any other during the first iteration, and
modules that own what an optimizer updates. Only the outermost root of a call emits events.
"""

import weakref
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import RootFacts
from advisor.profiles.hooks.model.checkpointing import Checkpointing
from advisor.profiles.hooks.model.discovery import Discovery, autocast_types, dynamo_at_work
from advisor.profiles.hooks.model.embeddings import Touched, is_table
from advisor.profiles.hooks.model.model_facts import inner, own_name, root_facts
from advisor.profiles.hooks.model.owners import member_ids, owner
from advisor.profiles.hooks.model.passage import Passage
from advisor.profiles.hooks.model.requests import Requests
from advisor.profiles.hooks.model.root_class import class_wrap
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.step.clock import FORWARD, Clock
from advisor.profiles.hooks.step.evaluations import Evaluations, GraphedEvaluation
from advisor.profiles.hooks.tensors import each_tensor, leading_size

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

AUTOCAST_CHECKS = 16  # forwards in which the program's own autocast is looked for


@dataclass(slots=True)
class Root:
    """A root module, held weakly: a program that drops its model gets the memory back."""

    module: "weakref.ref[Module]"
    facts: RootFacts
    members: frozenset[int]
    prepared: bool = False
    called: bool = False
    sampled: bool = False
    settled: bool = False
    function: Callable[..., Any] | None = None
    takes_4d: bool | None = None


class Roots:
    """Finds roots and emits ``model``, ``call``, ``forward``, ``output`` and ``evaluation`` for them.

    The classes of roots have their ``forward`` wrapped; the wrapper acts for roots alone, so that
    pickling, ``deepcopy``, signatures and scripting see nothing of it. Where models answer ``requests``,
    those in evaluation and without gradients are roots as well, and meet the same events and ``serve``.
    """

    def __init__(self, run: Run, clock: Clock, scope: Scope, requests: Requests | None = None) -> None:
        import torch

        self._is_grad_enabled = torch.is_grad_enabled
        self._requests = requests
        self._run = run
        self._clock = clock
        self._scope = scope
        self.known: dict[int, Root] = {}
        self._seen: list[Root] = []
        self._sampled: Root | None = None
        self.busy = False
        self.looking = False
        self.running: Root | None = None
        self._checkpointed: set[int] | None = None
        self._touched = Touched(clock)
        self._ours = False
        self._checks = AUTOCAST_CHECKS
        self._slots: list[Passage] = []
        self.classes: dict[type, Patch] = {}
        self.discovery = Discovery(
            scope, self._found, self._evaluate, lambda: self.busy, self._autocast, serves=requests is not None
        )
        self.checkpointing = Checkpointing(self._checkpoint)
        self.evaluations = Evaluations(clock)
        self.graphed: GraphedEvaluation | None = None  # the last forward in evaluation with gradients on
        self.autocast_types: frozenset[str] = frozenset()
        self.samples = 0
        if requests is not None:
            requests.quiet = self.quiet

    @property
    def own_autocast(self) -> bool:
        """Whether the program uses autocast itself."""
        return bool(self.autocast_types)

    @property
    def evaluation_s(self) -> float:
        """Seconds of evaluation since the first step."""
        return self.evaluations.seconds

    def install(self) -> None:
        """Look for modules that the program calls, from now until its first backward."""
        self.looking = True
        self.discovery.install()
        self.checkpointing.install()

    def remove(self) -> None:
        """Leave every module and class as it was."""
        self._touched.stop()
        self.discovery.remove()
        self.checkpointing.remove()
        for patch in self.classes.values():
            patch.remove()
        for slot in self._slots:
            slot.remove()
        self.classes.clear()
        self._slots.clear()
        self.known.clear()

    def settle(self) -> None:
        """A backward begins or an update ends: modules called from now on are no new roots."""
        if self.looking:
            self.looking = False
            self.discovery.remove()
        if self._clock.in_update:
            self._clock.border()

    def own(self, optimizer: "Optimizer") -> None:
        """Make a root of the module that owns what an optimizer updates, before its first update.

        One that neither contains nor belongs to a known root meets the event ``model`` at once.
        """
        module = owner(optimizer)
        if module is None or id(module) in self.known:
            return
        # A module that only compiled code of the program calls meets no wrapper; it would compile anew.
        is_hidden = dynamo_at_work() and "call" not in self._run.events
        root = self._adopt(module, wrapped=not is_hidden)
        if self._sampled is not None:  # the owner may be what is called from outside
            self._sampled.sampled = False
            self._sampled = None
            for each in self._seen:
                each.settled = False
        if not root.prepared:
            self._prepare(root, module)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Models that run meanwhile are not met."""
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before

    def modules(self) -> "list[Module]":
        """All roots that are still alive, inner ones too."""
        found = [root.module() for root in self._seen]
        return [module for module in found if module is not None]

    def inspect(self, on: bool) -> None:
        """Begin or end counting the rows of embedding tables that steps read."""
        if not on:
            self._touched.stop()
        elif not dynamo_at_work():  # new hooks would make it compile anew
            members = [member for module in self.modules() for member in module.modules()]
            self._touched.start({id(each): each for each in members if is_table(each)}.values())

    def name_of(self, parameter: "Tensor") -> str | None:
        """Name of the module below a root that holds this parameter."""
        for module in self.modules():
            for name, member in inner(module).named_modules():
                if any(own is parameter for own in member.parameters(recurse=False)):
                    return own_name(name) or type(member).__name__
        return None

    def facts(self, without_gradient: frozenset[int] | None = None) -> tuple[RootFacts, ...]:
        """The outermost of all roots, in the order in which they were found.

        Args:
            without_gradient: Identities of parameters that had no gradient in any update.
        """
        outermost = [
            root for root in self._seen
            if not any(root.members < other.members for other in self._seen)
        ]  # fmt: skip
        return tuple(self._describe(root, without_gradient) for root in outermost)

    def _describe(self, root: Root, without_gradient: frozenset[int] | None) -> RootFacts:
        facts = replace(
            root.facts,
            takes_4d_input=self._takes_4d(root),
            checkpointed=root.facts.checkpointed or self._recomputes(root),
        )
        module = root.module()
        if module is None:
            return facts
        trainable = [each for each in module.parameters() if each.requires_grad]
        unused = [each for each in trainable if id(each) in (without_gradient or ())]
        tables = (each for each in module.modules() if is_table(each))
        return replace(
            facts,
            unused_parameters=None if without_gradient is None else len(unused),
            embeddings=tuple(
                replace(table, touched_share=None if read is None else read / table.rows)
                for table, read in zip(facts.embeddings, map(self._touched.rows, tables), strict=False)
            ),
        )

    def _takes_4d(self, root: Root) -> bool | None:
        answers = [inner.takes_4d for inner in self._seen if inner.members <= root.members]
        known = [answer for answer in answers if answer is not None]
        return any(known) if known else None

    def _autocast(self, name: str) -> None:
        if not self._ours:
            self.autocast_types |= {name}

    def _recomputes(self, root: Root) -> bool:
        found = self._checkpointed
        return found is not None and (not found or not found.isdisjoint(root.members))

    def _checkpoint(self) -> None:
        """Activations are recomputed in the root that runs now; in any of them where none runs."""
        self._checkpointed = set() if self.running is None else set(self.running.members)

    def _found(self, module: "Module") -> None:
        if id(module) not in self.known:
            self._adopt(module)

    def _adopt(self, module: "Module", wrapped: bool = True) -> Root:
        key = id(module)
        members = member_ids(module)
        related = any(
            other.prepared and (key in other.members or members & {other_key})
            for other_key, other in self.known.items()
        )
        root = Root(
            weakref.ref(module, lambda _: self.known.pop(key, None)), root_facts(module), members, related
        )
        self.known[key] = root
        if self._requests is not None:
            self._requests.found()
            self._seen = [each for each in self._seen if each.module() is not None]  # it may go on for ever
            if self._sampled not in self._seen:
                self._sampled = None
        self._seen.append(root)
        if wrapped:
            self._wrap(root, module)
        return root

    def _wrap(self, root: Root, module: "Module") -> None:
        slot = Passage.place(module)
        if slot is not None:
            self._slots.append(Passage(module, slot, partial(self._pass, root)))
        elif type(module) not in self.classes:
            patch = Patch(type(module), "forward", self._wrapping(type(module)))
            self.classes[type(module)] = patch
            patch.install()

    def _pass(
        self, root: Root, module: "Module", function: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        if self.busy or get_ident() != self._scope.watched:
            return function(*args, **kwargs)
        return self.enter(root, module, function, args, kwargs)

    def _wrapping(self, kind: type) -> Callable[[Any], Callable[..., Any]]:
        return lambda original: class_wrap(kind, original, self._scope, self._clock, self._run, self)

    def enter(
        self, root: Root, module: "Module", function: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        """A root is called from outside every other one."""
        if self._requests is not None:
            if self._requests.served.calibrates(module, (args, kwargs)):
                return function(*args, **kwargs)
            self._requests.look(module, args, kwargs)
            enter = partial(self._enter, root, module, function)
            return self._requests.answered(lambda *a, **k: enter(a, k), args, kwargs, args, module)
        if not (module.training and self._is_grad_enabled()):
            return self._evaluate(module, root.function or function, args, kwargs)
        return self._enter(root, module, function, args, kwargs)

    def _enter(
        self, root: Root, module: "Module", function: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        clock = self._clock
        self.busy = True
        self.running = root
        self.evaluations.trained_at = clock.borders
        try:
            if not root.called:
                self._first_call(root, module, function, args, kwargs)
            if self._checks:
                self._checks -= 1
                self.autocast_types |= autocast_types()
            clock.push("forward")
            try:
                output = self.changed(root, module, function, args, kwargs)
            finally:
                clock.pop()
        finally:
            self.busy = False
            self.running = None
        if self._sampled is None:
            self._sampled = root
            root.sampled = self.evaluations.ever_trained = True
        if root.sampled and not (self._requests and clock.root_samples):  # of a request the first forward
            samples = leading_size((args, kwargs))
            self.samples += samples
            clock.root_samples += samples
        root.settled = not self._checks
        if clock.rank <= FORWARD:
            clock.forward_done()
        return output

    def changed(
        self, root: Root, module: "Module", function: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        """What a root forward in training gives, where somebody may act on it."""
        run = self._run
        function = root.function or function
        if "forward" in run.events:
            output = self._within(run.forward(module), function, args, kwargs)
        else:
            output = function(*args, **kwargs)
        return run.output(module, output) if "output" in run.events else output

    def _within(
        self, context: AbstractContextManager[Any], function: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        self._ours = True  # what is entered now is not the program's own autocast
        try:
            with context:
                self._ours = False
                return function(*args, **kwargs)
        finally:
            self._ours = False

    def _evaluate(self, module: "Module", function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        self._clock.flag("evaluation")
        self._clock.push("evaluation")
        self.busy = True
        try:
            output = function(*args, **kwargs)
        finally:
            self.busy = False
            spent = self._clock.pop()
        self.evaluations.ran(spent)
        self.evaluations.look(module, output)
        if self._is_grad_enabled():
            self.graphed = GraphedEvaluation(module, function, args, kwargs)
        return output

    def _first_call(
        self, root: Root, module: "Module", function: Callable[..., Any], args: Any, kwargs: Any
    ) -> None:
        root.called = True
        root.takes_4d = any(tensor.ndim == 4 for tensor in each_tensor((args, kwargs)))
        if not root.prepared:
            self._prepare(root, module)
        run, own = self._run, root.function or function
        changed = run.call(own, module) if root.function is not None or "call" in run.events else own
        if self._requests is not None:
            changed = run.serve(changed, module, args, kwargs)
        root.function = None if changed is function else changed

    def _prepare(self, root: Root, module: "Module") -> None:
        root.prepared = True
        changed = self._run.model(module)
        if changed is not module:
            root.function = changed  # a wrapper around the root, which calls the root inside
