"""What drawing the numbers of a batch's items costs in the main process: workers cannot take it over."""

from collections.abc import Callable, Iterable
from typing import Any

from advisor.profiles.facts.observed import HotSpot, Location
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.step.clock import Clock

PHASE = "drawing"  # inside ``input_wait``


class Drawing:
    """Times the samplers of all loaders between ``install`` and ``remove``.

    Args:
        clock: Is told of the phase, so that hot lines can be met in it.
        scope: Of the training thread.
    """

    def __init__(self, clock: Clock, scope: Scope) -> None:
        from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter

        self._clock = clock
        self._scope = scope
        self._spent_ns = 0
        self._steps = 0
        self._line: Location | None = None
        # The first is inherited by the second, where another tap stands over it already.
        self._patches = [
            Patch(kind, "_next_index", self._wrap)
            for kind in (_BaseDataLoaderIter, _MultiProcessingDataLoaderIter)
        ]

    def install(self) -> None:
        """Time from now on, from nothing."""
        self._spent_ns = 0
        for patch in self._patches:
            patch.install()

    def remove(self, steps: int, spots: Iterable[HotSpot]) -> None:
        """Time no more.

        Args:
            steps: That were taken since.
            spots: Hot lines that were met meanwhile, those met most first.
        """
        for patch in reversed(self._patches):
            patch.remove()
        self._steps = steps
        self._line = next((spot.location for spot in spots if spot.phase == PHASE), None)

    def facts(self) -> dict[str, Any]:
        """Fields of ``LoaderFacts``; none before it was looked at."""
        if not self._steps:
            return {}
        return {"draw_ms": self._spent_ns / 1e6 / self._steps, "draw_line": self._line}

    def _wrap(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def _next_index(iterator: Any) -> Any:
            if not self._scope.here() or self._clock.phase == PHASE:
                return original(iterator)
            self._clock.push(PHASE)
            try:
                return original(iterator)
            finally:
                self._spent_ns += self._clock.pop()

        return _next_index
