"""What drawing the numbers of a batch's items costs in the main process: workers cannot take it over."""

import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from advisor.profiles.facts.observed import HotSpot, Location
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.user_lines import defined_at

PHASE = "drawing"  # inside ``input_wait``
MOST_EPOCHS = 1000  # whose first draws are kept


class FirstDraws:
    """What the sampler of one loader takes for the first indices of an epoch.

    Shuffling and weighing all items is done before the first of them is known, and later ones cost nothing.

    Attributes:
        spent_ns: Of each epoch.
    """

    def __init__(self) -> None:
        self.spent_ns: list[int] = []

    def start(self, iterator: Any, spent_ns: int | None) -> None:
        """An epoch begins.

        Args:
            iterator: That was made for it.
            spent_ns: What its first draw took, if it is over, as workers are asked ahead.
        """
        from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

        if spent_ns is not None:
            self._note(spent_ns)
        elif type(iterator) is _SingleProcessDataLoaderIter:
            iterator._sampler_iter = _FirstTimed(iterator, self._note)

    def _note(self, spent_ns: int) -> None:
        if len(self.spent_ns) < MOST_EPOCHS:
            self.spent_ns.append(spent_ns)


class _FirstTimed:
    """Indices of an epoch; drawing the first is timed, what follows comes straight from the sampler."""

    def __init__(self, iterator: Any, note: Callable[[int], None]) -> None:
        self._owner = weakref.ref(iterator)
        self._indices: Iterator[Any] = iterator._sampler_iter
        self._note = note

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        owner = self._owner()
        if owner is None or owner._sampler_iter is not self:  # somebody else reads the rest
            return next(self._indices)
        began = time.perf_counter_ns()
        try:
            return next(self._indices)
        finally:
            self._note(time.perf_counter_ns() - began)
            owner._sampler_iter = self._indices


def sampler_of(loader: Any) -> tuple[str, Location | None]:
    """The type of what draws the items of a loader, and where it does if that is the program's own."""
    from torch.utils.data import BatchSampler

    batches = loader.batch_sampler
    sampler = batches if batches is not None and type(batches) is not BatchSampler else loader.sampler
    return type(sampler).__name__, defined_at(getattr(type(sampler), "__iter__", None))


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
