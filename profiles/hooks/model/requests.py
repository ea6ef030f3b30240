"""What a request is: the outermost call by which a program has its model answer.

A pipeline of transformers, ``generate`` of theirs or of a model's own class, a session of ONNX Runtime, or a
root's forward. A program that says itself where a request begins and ends (``with advisor.request():``) is
believed: then nothing else counts.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from advisor.profiles.events import Run
from advisor.profiles.hooks.imports import after_import
from advisor.profiles.hooks.model.discovery import dynamo_at_work
from advisor.profiles.hooks.model.own_generate import OwnGenerate
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.serving.served import Served
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.step.marked import TOLD

if TYPE_CHECKING:
    from torch.nn import Module

OUTERMOST = (
    ("transformers.pipelines.base", "Pipeline", "__call__"),
    ("transformers.generation.utils", "GenerationMixin", "generate"),
    ("onnxruntime.capi.onnxruntime_inference_collection", "Session", "run"),
)
TRAINS = "the program takes optimizer steps: it trains, and answers no requests"
SETTLED = 8  # requests with models that are known, after which no new one is looked for


class Trains(Exception):
    """Raised inside a program whose requests were to be counted, at its first update."""

    def __init__(self) -> None:
        super().__init__(TRAINS)


class Requests:
    """Tells the clock where requests begin and end.

    Args:
        run: Is told that torch is set up, before the first request.
        clock: Closes a step at the end of each.
        scope: What is watched.
        between: What happens between requests counts, too: how many are answered in a second.
        settle: Called once models are known.

    Attributes:
        running: A request is being answered.
        served: Is told how models are called.
        quiet: Around what makes models run without asking them anything, such as a trace.
        listener: Is told of each its kind, its arguments and the output; of requests that the program marks,
            those of the models called in them.
        asks: By kind, what has a request answered with other arguments.
    """

    def __init__(
        self, run: Run, clock: Clock, scope: Scope, *, between: bool, settle: Callable[[], None]
    ) -> None:
        import torch

        self._is_grad_enabled, self._is_inference = torch.is_grad_enabled, torch.is_inference_mode_enabled
        self._training = False
        self._modes: set[str] = set()
        self._run = run
        self._clock = clock
        self._scope = scope
        self._between = between
        self._settle = settle
        self._count = self._settled = 0
        self._own = self._looked = False
        self._marks = False
        self.running = False
        self.listener: Callable[[str, Any, Any, Any], None] | None = None
        self.asks: dict[str, Callable[..., Any]] = {}
        self.quiet: Callable[[], AbstractContextManager[Any]] = nullcontext
        self.patches: list[Patch] = []
        self._generating = OwnGenerate(self._wrap)
        self._on = False
        self.served = Served(
            scope, clock, before_ms=self._before_ms, answered=lambda: self._count,
            running=lambda: self.running, quiet=lambda: self.quiet(), compiled=dynamo_at_work,
        )  # fmt: skip

    def install(self) -> None:
        """Watch from now on."""
        self._on = True
        TOLD.around = self._marked
        self.served.install()
        self._generating.install()
        for module, owner, name in OUTERMOST:
            after_import(module, self._watching(owner, name))

    def remove(self) -> None:
        """Watch no longer."""
        self._on = False
        TOLD.around = nullcontext
        self.served.remove()
        self._generating.remove()
        for patch in self.patches:
            patch.remove()

    @contextmanager
    def around(self) -> Iterator[None]:
        """One request, unless it is a part of another one or the program says itself what they are."""
        if self.running or self._own or not self._scope.here():
            yield
            return
        if not self._count:
            self._run.process()
        self.running = True
        if not self._between:
            self._clock.restart()
        try:
            yield
        finally:
            self.running = self._looked = False
        self._count += 1
        self._settled += 1
        if self._settled == SETTLED:
            self._settle()
        self._clock.request_done()

    def answered(
        self, function: Callable[..., Any], args: Any, kwargs: Any, told: Any, ask: Callable[..., Any]
    ) -> Any:
        """The output of a call that may be a request of its own.

        Args:
            function: Answers it.
            args: For the function.
            kwargs: For the function.
            told: The arguments to tell of.
            ask: Has the like answered, as the program does.
        """
        counts = self._marks or not self.running
        if counts:
            self.asks[_kind(ask)] = ask
        heard = counts and self.listener is not None
        with self.around():
            output = function(*args, **kwargs)
            if heard and self.listener is not None:
                self.listener(_kind(ask), told, kwargs, output)
        return output

    def found(self) -> None:
        """There is a model that was not known: others may follow."""
        self._settled = 0

    def look(self, module: "Module", args: Any, kwargs: Any) -> None:
        """At how a model is called."""
        self.served.called(module, args, kwargs)
        self._training |= getattr(module, "training", False)  # a frozen one of TorchScript has none
        if self._is_inference():
            self._modes.add("inference_mode")
        else:
            self._modes.add("grad" if self._is_grad_enabled() else "no_grad")

    def facts(self) -> dict[str, Any]:
        """Fields of ``RunFacts``."""
        if not self._count:
            return {}
        mode = next((name for name in ("grad", "no_grad") if name in self._modes), "inference_mode")
        return {
            "requests_in_training_mode": self._training,
            "requests_mode": mode if self._modes else None,
            "requests_whole": self._between,
        }

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """What is answered meanwhile is no request."""
        before, self.running = self.running, True
        try:
            yield
        finally:
            self.running = before

    def _before_ms(self) -> float | None:
        """Time from the begin of a request to the first call of a model in it, as which this one counts."""
        begun = self.running or (self._between and not self._own)
        if self._looked or not begun or not self._count:
            return None
        self._looked = True
        return self._clock.elapsed_ns() / 1e6

    @contextmanager
    def _marked(self) -> Iterator[None]:
        self._own = False
        began = time.perf_counter()
        with self.around():
            self._marks = True
            try:
                yield
            finally:
                if self.served.first_ms is None:
                    self.served.first_ms = 1e3 * (time.perf_counter() - began)
                self._marks = False
                self._own = True

    def _watching(self, owner: str, name: str) -> Callable[[ModuleType], None]:
        def watch(module: ModuleType) -> None:
            if self._on and hasattr(module, owner):
                wrap = self._wrap_generate if name == "generate" else self._wrap
                patch = Patch(getattr(module, owner), name, wrap)
                self.patches.append(patch)
                patch.install()

        return watch

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*args: Any, **kwargs: Any) -> Any:
            return self.answered(original, args, kwargs, args[1:], partial(answer, args[0]))

        return answer

    def _wrap_generate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def generate(*args: Any, **kwargs: Any) -> Any:
            self.served.generates(args[0], args[1:], kwargs)
            edited = dict(kwargs)
            self._run.edit("generate", edited)
            ask = partial(generate, args[0])
            return self.answered(lambda *given, **_: original(*given, **edited), args, kwargs, args[1:], ask)

        return generate


def _kind(ask: Callable[..., Any]) -> str:
    """The same in every process of a program."""
    asked = ask.args[0] if isinstance(ask, partial) else ask
    return type(asked).__qualname__
