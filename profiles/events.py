"""The handle on an instrumented run: its events, and who has subscribed to them.

Subscribers are knobs (and later strategies): a method named after an event is the subscription.

==============  ==================================================================================
``process``     ``(value)``: once torch is imported, and again at a live switch
``loader``      ``(arguments, value)``: a DataLoader is constructed; edit the bound arguments
``batches``     ``(iterator, value) -> iterator``: a training loader is iterated
``transfer``    ``(tensor, device, value) -> tensor``: a batch goes to the device
``model``       ``(root, value) -> module``: before the first step; transform in place
``call``        ``(function, root, value) -> function``: replaces the root's bound forward, once
``forward``     ``(root, value) -> context manager``: around every root forward in training
``output``      ``(root, output, value) -> output``: what a root forward in training returned
``backward``    ``(loss, value) -> loss``: before every backward
``gradients``   ``(optimizer, value) -> bool | None``: before an update; ``False`` skips it
``optimizer``   ``(optimizer, value)``: before its first step, and again at a live switch
``step``        ``(optimizer, value) -> context manager | None``: around the update
``clear``       ``(optimizer, value)``: gradients are cleared
``serve``       ``(function, root, request, value) -> function``: replaces what answers requests, once
``gather``      ``(plan, value)``: samples are put together to a request; edit how many, and in which order
``generate``    ``(arguments, value)``: ``generate`` is called; edit its named arguments
==============  ==================================================================================

Where a trained model answers requests ``model``, ``call``, ``forward``, ``output`` and ``serve`` are for that
one; ``process`` comes again before the first request, since programs set their own after importing torch.

``environment`` is asked by the parent before the process exists. ``epoch``, ``save`` and ``stop`` are
flags of the clock: observed, never changed. Evaluation is a root in eval mode, or with gradients off.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

EVENTS = (
    "environment", "process", "loader", "batches", "transfer", "model", "call", "forward", "output",
    "backward", "gradients", "optimizer", "step", "clear", "serve", "gather", "generate",
)  # fmt: skip

Config = Mapping[str, int | str]

NOTHING = nullcontext()  # may be entered many times, also inside itself


class Subscriber(Protocol):
    """What a run needs to know of a knob; events are looked up by name."""

    @property
    def layer(self) -> int:
        """Order among subscribers; lower ones are nearer to the user's code."""

    def prepare(self, config: Any, present: Any) -> None:
        """Told of the whole configuration before it takes effect."""


Inputs = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and named arguments of one call of a model."""


@dataclass
class Reference:
    """Has a form of 8 bits answer as its weights say, multiplied in floating point, not by its kernels.

    Attributes:
        known: Such a form is served.
        answers: It is to answer now.
    """

    known: bool = False
    answers: bool = False

    def beside(self, kernel: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., Any]:
        """What to serve: ``kernel``, and ``reference`` while that is to answer."""
        self.known = True

        def answer(*args: Any, **kwargs: Any) -> Any:
            return reference(*args, **kwargs) if self.answers else kernel(*args, **kwargs)

        return answer


@dataclass(frozen=True)
class Request:
    """What is known of requests as the first of them comes, for those that make another form of the model.

    Attributes:
        args: Positional arguments of the model in this request, or the user's ``example_inputs``.
        kwargs: Named ones.
        folder: An artefact left here (``.pt2``, ``.onnx``, a state) is kept with the trial; it exists.
        calibration: Gives inputs of samples on which nothing is judged; empty where none are known.
        dynamic: The user's word on which sizes vary, as ``torch.export`` takes it; ``None`` without.
        reference: A form that has one says so here.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    folder: Path
    calibration: "Callable[[], Iterable[Inputs]]" = lambda: ()
    dynamic: Any = None
    reference: Reference = field(default_factory=Reference)


@dataclass
class Serving:
    """What ``Request`` is made of beside its inputs; whoever runs the target fills it in before."""

    folder: Path = field(default_factory=Path)
    example: "Callable[[], Inputs | None]" = lambda: None
    calibration: "Callable[[], Iterable[Inputs]]" = lambda: ()
    dynamic: Any = None
    reference: Reference = field(default_factory=Reference)
    models: int = 0

    def request(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Request:
        """The first request, which the next model gets with these arguments; each has a folder of its own."""
        given = self.example()
        args, kwargs = given if given is not None else (args, kwargs)
        self.models += 1
        folder = self.folder if self.models == 1 else self.folder / f"model-{self.models}"
        folder.mkdir(parents=True, exist_ok=True)
        return Request(args, kwargs, folder, self.calibration, self.dynamic, self.reference)


class Refusal(Exception):
    """Raised by a subscriber that cannot apply; the knobs' ``Refused`` is handed to ``Run``."""


class Run:
    """One training run in this process and the changes that act on it.

    Args:
        knobs: Subscribers by id.
        present: The program's own setting of every knob. A knob at its present value is never
            called, except to return to it after a live switch.
        refusal: The exception type by which a subscriber declines.
        training_dataset: Ordinal of the dataset whose loaders the ``loader`` event is for;
            ``None`` means every loader.

    Attributes:
        events: Those on which anyone acts now; looked up on every step, hence no method.
        serving: What those that answer requests in another way are told beside the first one.
        reload: Emits ``loader`` for the loaders in use, where somebody watches them.
    """

    def __init__(
        self,
        knobs: Mapping[str, Subscriber],
        present: Config,
        refusal: type[Exception] = Refusal,
        training_dataset: int | None = None,
    ) -> None:
        self._knobs = dict(sorted(knobs.items(), key=lambda item: (item[1].layer, item[0])))
        self._present = dict(present)
        self._refusal = refusal
        self.training_dataset = training_dataset
        self.serving = Serving()
        self.config: dict[str, int | str] = dict(present)
        self.applied: set[str] = set()
        self.refused: dict[str, str] = {}
        self._changed: dict[str, int | str] = {}
        self.events: frozenset[str] = frozenset()
        self._subscribers: dict[str, list[tuple[str, Callable[..., Any], int | str]]] = {}
        self._optimizers: list[Optimizer] = []
        self._process_ready = False
        self.reload: Callable[[], None] | None = None
        self._subscribe()

    @property
    def asked(self) -> list[str]:
        """Ids of the knobs that are to differ from the present setting."""
        return list(self._changed)

    def configure(self, config: Config) -> None:
        """Take a configuration. Called before the program starts, and at a live switch between steps.

        Knobs that return to the present setting at a switch are called once more at ``process`` and
        ``optimizer`` with that value; at the other events they simply stop acting. A live one that was
        refused is asked again: what stands beside it now may suit it. Loaders in use are changed first.
        """
        before = self.config
        self.config = {**self._present, **config}
        again = {name for name in self.refused if name in self._knobs and _switches(self._knobs[name])}
        switched = [
            name for name in self._knobs if name in again or self.config.get(name) != before.get(name)
        ]
        self._changed = {
            name: value for name, value in self.config.items()
            if name in self._knobs and value != self._present.get(name)
        }  # fmt: skip
        declined = {name for name in switched if name in self.refused and name not in self._changed}
        for name in switched:
            self.applied.discard(name)
            self.refused.pop(name, None)
        for name in self._changed:
            self._guard(name, self._knobs[name].prepare, self.config, self._present, counts=False)
        self._subscribe()
        if self.reload is not None and any(_of_iterator(self._knobs[name]) for name in switched):
            self.reload()
        for name in switched:
            if name in declined:  # what never acted has nothing to take back
                continue
            value = self.config[name]
            knob = self._knobs[name]
            if self._process_ready and hasattr(knob, "process"):
                self._guard(name, knob.process, value)
            if hasattr(knob, "optimizer"):
                for optimizer in self._optimizers:
                    self._guard(name, knob.optimizer, optimizer, value)

    def settle(self, present: Config) -> None:
        """Learn the program's own settings, once they have been observed: those count as unchanged.

        What was asked for before stays asked for where it differs.
        """
        self._present = dict(present)
        self.config = {**present, **self._changed}
        self._changed = {name: value for name, value in self._changed.items() if value != present.get(name)}
        self._subscribe()

    def unanswered(self) -> list[str]:
        """Knobs asked for that are neither applied nor refused: such a trial is invalid."""
        return [name for name in self._changed if name not in self.applied and name not in self.refused]

    def refuse(self, name: str, reason: str) -> None:
        """A knob asked for turned out not to apply, outside its events."""
        self.applied.discard(name)
        self.refused[name] = reason
        self._subscribe()

    def process(self) -> None:
        """Torch has been imported."""
        self._process_ready = True
        for name, method, value in self._at("process"):
            self._guard(name, method, value)

    def loader(self, arguments: dict[str, Any], *, switched: bool = False) -> None:
        """A DataLoader for training is about to be constructed from ``arguments``.

        Args:
            arguments: To be edited.
            switched: It exists already; only what may be switched then is asked.
        """
        for name, method, value in self._at("loader"):
            if switched and not _of_iterator(self._knobs[name]):
                continue
            self._guard(name, method, arguments, value)

    def batches(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """A training loader is iterated."""
        for name, method, value in self._at("batches"):
            iterator = self._guard(name, method, iterator, value, default=iterator)
        return iterator

    def transfer(self, tensor: "Tensor", device: Any) -> "Tensor":
        """A tensor of a batch goes to the device."""
        for name, method, value in self._at("transfer"):
            tensor = self._guard(name, method, tensor, device, value, default=tensor)
        return tensor

    def model(self, root: "Module") -> "Module":
        """A root is known and the first step has not begun."""
        for name, method, value in self._at("model"):
            root = self._guard(name, method, root, value, default=root)
        return root

    def call(self, function: Callable[..., Any], root: "Module") -> Callable[..., Any]:
        """What to call in place of the root's own bound forward."""
        for name, method, value in self._at("call"):
            function = self._guard(name, method, function, root, value, default=function)
        return function

    def serve(
        self, function: Callable[..., Any], root: "Module", args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[..., Any]:
        """What to call in place of the root's own bound forward from the first request on.

        Args:
            function: What ``call`` made of the forward.
            root: The model.
            args: Of the first call.
            kwargs: Of the first call.
        """
        if "serve" not in self.events:
            return function
        request = self.serving.request(args, kwargs)
        for name, method, value in self._at("serve"):
            function = self._guard(name, method, function, root, request, value, default=function)
        return function

    def forward(self, root: "Module") -> AbstractContextManager[Any]:
        """Around a root forward in training."""
        return self._contexts("forward", root)

    def output(self, root: "Module", output: Any) -> Any:
        """What a root forward in training returned."""
        for name, method, value in self._at("output"):
            output = self._guard(name, method, root, output, value, default=output)
        return output

    def backward(self, loss: "Tensor") -> "Tensor":
        """Before a backward pass from a scalar loss."""
        for name, method, value in self._at("backward"):
            loss = self._guard(name, method, loss, value, default=loss)
        return loss

    def gradients(self, optimizer: "Optimizer") -> bool:
        """Before an update; ``False`` means that it must be skipped."""
        results = [self._guard(n, method, optimizer, value) for n, method, value in self._at("gradients")]
        return all(result is not False for result in results)

    def optimizer(self, optimizer: "Optimizer") -> None:
        """An optimizer is about to make its first step."""
        if any(known is optimizer for known in self._optimizers):
            return
        self._optimizers.append(optimizer)
        for name, method, value in self._at("optimizer"):
            self._guard(name, method, optimizer, value)

    def replaced(self, optimizer: "Optimizer", earlier: "Optimizer") -> None:
        """An optimizer is about to make its first step, in the place of one that makes no more."""
        self._optimizers[:] = [known for known in self._optimizers if known is not earlier]
        self.optimizer(optimizer)

    def step(self, optimizer: "Optimizer") -> AbstractContextManager[Any]:
        """Around an update."""
        return self._contexts("step", optimizer)

    def clear(self, optimizer: "Optimizer") -> None:
        """Gradients are cleared."""
        for name, method, value in self._at("clear"):
            self._guard(name, method, optimizer, value)

    def edit(self, event: str, subject: Any) -> None:
        """What is about to be used at ``gather`` or ``generate`` may be edited."""
        for name, method, value in self._at(event):
            self._guard(name, method, subject, value)

    def _contexts(self, event: str, subject: Any) -> AbstractContextManager[Any]:
        subscribers = self._at(event)
        if not subscribers:
            return NOTHING
        contexts = [self._guard(name, method, subject, value) for name, method, value in subscribers]
        present = [context for context in contexts if context is not None]
        if len(present) == 1:
            return present[0]  # type: ignore[no-any-return]
        return _Together(present) if present else NOTHING

    def _subscribe(self) -> None:
        self._subscribers = {}
        for name, knob in self._knobs.items():
            if name not in self._changed or name in self.refused:
                continue
            for event in EVENTS:
                method = getattr(knob, event, None)
                if method is not None:
                    self._subscribers.setdefault(event, []).append((name, method, self._changed[name]))
        self.events = frozenset(self._subscribers)

    def _at(self, event: str) -> Sequence[tuple[str, Callable[..., Any], int | str]]:
        return self._subscribers.get(event, ())

    def _guard(
        self, name: str, method: Callable[..., Any], *arguments: Any, default: Any = None, counts: bool = True
    ) -> Any:
        try:
            result = method(*arguments)
        except self._refusal as reason:
            self.refuse(name, str(reason))
            return default
        if counts and name not in self.refused:
            self.applied.add(name)
        return result


def _of_iterator(subscriber: Subscriber) -> bool:
    """Whether it sets how iterators of loaders are made."""
    return getattr(subscriber, "of_iterator", False)


def _switches(subscriber: Subscriber) -> bool:
    """Whether it can be switched between two steps."""
    return getattr(subscriber, "live", False) or _of_iterator(subscriber)


class _Together(ExitStack):
    """Several contexts as one: entered in order, left in reverse."""

    def __init__(self, contexts: Sequence[AbstractContextManager[Any]]) -> None:
        super().__init__()
        self._contexts = contexts

    def __enter__(self) -> Self:
        with ExitStack() as entered:
            for context in self._contexts:
                entered.enter_context(context)
            self.push(entered.pop_all())
        return self
