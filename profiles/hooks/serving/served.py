"""Everything that is noted of a program that answers requests, beside the requests themselves."""

import statistics
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.served import Int8Facts, ServedFacts
from advisor.profiles.hooks.patches import Scope
from advisor.profiles.hooks.serving.at_once import eight_at_once, last_token
from advisor.profiles.hooks.serving.cache import cache_of
from advisor.profiles.hooks.serving.calibration import Calibration
from advisor.profiles.hooks.serving.int8_layers import int8_layers
from advisor.profiles.hooks.serving.made_anew import MadeAgain
from advisor.profiles.hooks.serving.prefixes import Prefixes
from advisor.profiles.hooks.serving.session_int8 import int8_session
from advisor.profiles.hooks.serving.sessions import Sessions
from advisor.profiles.hooks.serving.weights import mask_ms, masks_of, zeros
from advisor.profiles.hooks.step.clock import Clock

if TYPE_CHECKING:
    from torch.nn import Module

KEPT = 256  # times before a model was called


class Served:
    """Notes what models are called with, what is made again, and, when inspected, what they consist of.

    Args:
        scope: What is watched.
        clock: Times phases.
        before_ms: Milliseconds of the present request, where no model was called in it before.
        answered: How many requests have been answered.
        running: Whether one is being answered.
        quiet: Around what is not to be met.
        compiled: Whether another size of input would be compiled.

    Attributes:
        first_ms: The first request that the program marks itself.
    """

    def __init__(
        self, scope: Scope, clock: Clock, *, before_ms: Callable[[], float | None],
        answered: Callable[[], int], running: Callable[[], bool],
        quiet: Callable[[], AbstractContextManager[Any]], compiled: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._scope = scope
        self._compiled = compiled
        self._before_ms = before_ms
        self._made = MadeAgain(scope, answered, running, quiet)
        self._answered = answered
        self._sessions = Sessions(scope, clock, self._note_before)
        self._calibration = Calibration()
        self._prefixes = Prefixes()
        self._before: deque[float] = deque(maxlen=KEPT)
        self._latest: tuple[Module, Any, Any] | None = None
        self._looks: dict[str, Any] = {}
        self.first_ms: float | None = None
        self._cache: str | None = None

    def install(self) -> None:
        """Watch from now on."""
        self._made.install()
        self._sessions.install()

    def remove(self) -> None:
        """Watch no longer."""
        self._sessions.remove()
        self._made.remove()

    def calibrates(self, module: "Module", inputs: Any) -> bool:
        """Whether this call of a model calibrates it; then its inputs are noted."""
        found = self._calibration.calibrates(module)
        if found:
            self._calibration.note(inputs)
        return found

    def generates(self, model: Any, args: Any, kwargs: Any) -> None:
        """``generate`` of transformers is called, by the program itself with these arguments."""
        self._cache = cache_of(model, args, kwargs)

    def called(self, module: "Module", args: Any, kwargs: Any) -> None:
        """A model is called with an input."""
        self._note_before()
        self._calibration.compare((args, kwargs))
        self._prefixes.look((args, kwargs))
        if self._sessions.keeping:
            self._latest = module, args, kwargs

    def inspect(self, on: bool) -> None:
        """Keep the latest input from now on; or look with it at models, between two requests."""
        self._sessions.keeping = on
        if on:
            return
        watched, self._scope.active = self._scope.active, False
        try:
            self._look()
        finally:
            self._scope.active = watched
            self._latest = self._sessions.latest = None

    def facts(self) -> ServedFacts:
        """All that is known by now."""
        return ServedFacts(
            made=self._made.facts(),
            sessions=self._sessions.facts(),
            session_ms=self._sessions.spent_ns / 1e6 / max(1, self._answered()),
            first_ms=self.first_ms,
            before_ms=statistics.median(self._before) if self._before else None,
            calibrated=self._calibration.distinct,
            calibrated_share=self._calibration.share,
            tokens_again=self._prefixes.again,
            prefix=self._prefixes.length,
            cache=self._cache,
            **self._looks,
        )

    def _note_before(self) -> None:
        before_ms = self._before_ms()
        if before_ms is not None:
            self._before.append(before_ms)

    def _look(self) -> None:
        import torch

        with torch.no_grad():
            if self._sessions.latest is not None:
                self._looks["int8"] = int8_session(*self._sessions.latest)
            if self._latest is None:
                return
            module, args, kwargs = self._latest
            masks = masks_of([module])
            self._looks |= {"zeros": zeros([module]), "masks": len(masks), "mask_ms": mask_ms(masks)}
            if getattr(module, "training", False):  # a call would change it
                return
            self._looks["int8"] = self._layers(module, args, kwargs) or self._looks.get("int8")
            if not self._compiled():
                self._looks["eight_at_once"] = eight_at_once(module, args, kwargs)
            if self._prefixes.length is not None:
                self._looks["last_token"] = last_token(module, args, kwargs)

    def _layers(self, module: "Module", args: Any, kwargs: Any) -> Int8Facts | None:
        return int8_layers(module, lambda: module(*args, **kwargs))
