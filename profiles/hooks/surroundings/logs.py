"""Time that a program spends on telling how it is doing: printing, logging and progress bars."""

import builtins
import logging
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.imports import after_import
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.user_lines import user_location

BARS = ("update", "refresh", "set_postfix")
SHOWING = ("refresh",)  # the others show something only now and then, and through it
WRITERS = ("torch.utils.tensorboard.writer", "tensorboardX.writer")


class Logs:
    """Times ``print``, ``logging`` and tqdm in the training thread as the phase ``logging``.

    Writers of experiment trackers write elsewhere while a program is watched: their calls are counted,
    their time is left where it falls.

    Attributes:
        calls: That showed or wrote something, since the first step.
    """

    def __init__(self, clock: Clock, scope: Scope) -> None:
        from torch.compiler import is_compiling

        self._clock = clock
        self._scope = scope
        self._is_compiling = is_compiling
        self._installed = False
        self._inside = False
        self._shown = False
        self._places: Counter[Location] = Counter()
        self._imported: list[Patch] = []
        self.calls = 0
        self.patches = [
            Patch(builtins, "print", self._timing(shows=True)),
            Patch(logging.Logger, "handle", self._timing(shows=True)),
        ]

    def install(self) -> None:
        """Watch from now on; progress bars and writers as soon as the program imports them."""
        self._installed = True
        for patch in self.patches:
            patch.install()
        after_import("tqdm.std", self._reach_bars)
        for name in WRITERS:
            after_import(name, self._reach_writer)

    def remove(self) -> None:
        """Stop watching."""
        self._installed = False
        for patch in [*self.patches, *self._imported]:
            patch.remove()

    @property
    def calls_per_step(self) -> float:
        """Calls for each step since the first one."""
        return self.calls / max(1, self._clock.steps)

    @property
    def location(self) -> Location | None:
        """Where in the program most of the time is spent; ``None`` before the first step."""
        return max(self._places, key=self._places.__getitem__, default=None)

    def _reach_bars(self, module: ModuleType) -> None:
        self._reach(module.tqdm, {name: self._timing(shows=name in SHOWING) for name in BARS})

    def _reach_writer(self, module: ModuleType) -> None:
        writer = module.SummaryWriter
        self._reach(writer, {name: self._counting for name in vars(writer) if name.startswith("add_")})

    def _reach(self, owner: Any, wraps: dict[str, Callable[[Any], Any]]) -> None:
        if not self._installed:
            return
        for name, wrap in wraps.items():
            if callable(getattr(owner, name, None)):
                patch = Patch(owner, name, wrap)
                patch.install()
                self._imported.append(patch)

    def _timing(self, *, shows: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def telling(*args: Any, **kwargs: Any) -> Any:
                # Compiled code must meet the function itself, which dynamo knows by name.
                if self._is_compiling() or not self._scope.here():
                    return original(*args, **kwargs)
                self._shown |= shows
                if self._inside:
                    return original(*args, **kwargs)
                self._inside = True
                self._clock.push("logging")
                try:
                    return original(*args, **kwargs)
                finally:
                    self._close(self._clock.pop())

            return telling

        return make

    def _counting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def writing(*args: Any, **kwargs: Any) -> Any:
            counts = not self._inside and self._scope.here() and self._clock.first_tick_ns is not None
            if not counts:
                return original(*args, **kwargs)
            self.calls += 1
            self._inside = True
            try:
                return original(*args, **kwargs)
            finally:
                self._inside = False

        return writing

    def _close(self, spent_ns: int) -> None:
        shown, self._shown, self._inside = self._shown, False, False
        if self._clock.first_tick_ns is None:
            return
        self.calls += shown
        place = user_location()
        if place is not None:
            self._places[place] += spent_ns
