"""What a program makes again after its first request: weights loaded, models brought into another form."""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.served import MadeAnew
from advisor.profiles.hooks.imports import after_import
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.user_lines import user_location

LOAD, FORM = "load", "form"
CALLS = (
    ("torch", "", "load", LOAD),
    ("torch.nn", "Module", "load_state_dict", LOAD),
    ("torch.jit", "", "load", LOAD),
    ("safetensors.torch", "", "load_file", LOAD),
    ("transformers.modeling_utils", "PreTrainedModel", "from_pretrained", LOAD),
    ("torch.jit", "", "trace", FORM),
    ("torch.jit", "", "script", FORM),
    ("torch.export", "", "export", FORM),
    ("torch.onnx", "", "export", FORM),
    ("torch.ao.quantization", "", "quantize_dynamic", FORM),
    ("onnxruntime.capi.onnxruntime_inference_collection", "InferenceSession", "__init__", FORM),
)
"""Module, class, function, and what it makes."""

NAMES = {"__init__": "InferenceSession"}
DRAWS = "reset_parameters"
"""Method of torch's layers: draws first weights, most of the time of building a model that is loaded then."""


class MadeAgain:
    """Notes outermost calls of ``CALLS`` after the first request, with their time.

    Args:
        scope: What is watched.
        answered: How many requests have been answered.
        running: Whether one is being answered.
        quiet: Around calls: models that run meanwhile are not met.
    """

    def __init__(
        self, scope: Scope, answered: Callable[[], int], running: Callable[[], bool],
        quiet: Callable[[], AbstractContextManager[Any]],
    ) -> None:  # fmt: skip
        self._scope = scope
        self._answered = answered
        self._running = running
        self._quiet = quiet
        self._inside = self._on = False
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._ns: defaultdict[str, int] = defaultdict(int)
        self._inside_ns: defaultdict[str, int] = defaultdict(int)
        self._places: defaultdict[str, Counter[tuple[str, Location | None]]] = defaultdict(Counter)
        self.patches: list[Patch] = []

    def install(self) -> None:
        """Watch from now on."""
        self._on = True
        for module, owner, name, kind in CALLS:
            after_import(module, self._watching(module, owner, name, kind))
        after_import("torch.nn", self._watch_layers)

    def remove(self) -> None:
        """Watch no longer."""
        self._on = False
        for patch in reversed(self.patches):
            patch.remove()

    def facts(self) -> tuple[MadeAnew, ...]:
        """What was made again, by kind."""
        return tuple(self._described(kind) for kind in sorted(self._counts))

    def _described(self, kind: str) -> MadeAnew:
        requests = max(1, self._answered() - 1)
        (call, place), _ = self._places[kind].most_common(1)[0]
        return MadeAnew(
            kind,
            call,
            max(self._counts[kind].values()) / requests,  # reading a file and copying from it are one loading
            self._ns[kind] / 1e6 / requests,
            self._inside_ns[kind] / 1e6 / requests,
            place,
        )

    def _watching(self, path: str, owner: str, name: str, kind: str) -> Callable[[ModuleType], None]:
        def watch(module: ModuleType) -> None:
            place = getattr(module, owner, None) if owner else module
            if self._on and place is not None and hasattr(place, name):
                call = NAMES.get(name, name) if owner else f"{path}.{name}"
                self._patch(place, name, lambda original: self._wrap(original, call, kind))

        return watch

    def _watch_layers(self, module: ModuleType) -> None:
        if not self._on:
            return
        layers = (layer for layer in vars(module).values() if isinstance(layer, type))
        for owner in {base for layer in layers for base in layer.__mro__ if DRAWS in vars(base)}:
            self._patch(owner, DRAWS, self._drawing)

    def _patch(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        patch = Patch(owner, name, make)
        self.patches.append(patch)
        patch.install()

    def _wrap(self, original: Any, call: str, kind: str) -> Any:
        if isinstance(original, classmethod):
            return _OfClass(self._wrap(original.__func__, call, kind))

        def make(*args: Any, **kwargs: Any) -> Any:
            if self._inside or not self._scope.here():
                return original(*args, **kwargs)
            with self._timed(kind, call), self._quiet():
                return original(*args, **kwargs)

        return make

    def _drawing(self, original: Callable[..., None]) -> Callable[..., None]:
        def draw(*args: Any, **kwargs: Any) -> None:
            if self._inside or not self._answered() or not self._scope.here():
                original(*args, **kwargs)
                return
            with self._timed(LOAD):
                original(*args, **kwargs)

        return draw

    @contextmanager
    def _timed(self, kind: str, call: str = "") -> Iterator[None]:
        """Note the time of what is inside; without a name it is a part of making that kind, not counted."""
        self._inside, running, began = True, self._running(), time.perf_counter_ns()
        try:
            yield
        finally:
            self._inside = False
            if self._answered():
                self._note(kind, call, time.perf_counter_ns() - began, running)

    def _note(self, kind: str, call: str, spent_ns: int, running: bool) -> None:
        self._ns[kind] += spent_ns
        if running:
            self._inside_ns[kind] += spent_ns
        if call:
            self._counts[kind][call] += 1
            self._places[kind][call, user_location(sys._getframe())] += spent_ns


class _OfClass:
    """A method of a class: one of ``classmethod`` cannot be told what it wraps."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        return partial(self._make, owner)
