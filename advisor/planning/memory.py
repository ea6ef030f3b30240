"""Memory of one rank at other counts, from the categories that a profile of the program measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from advisor.planning.places import Place
from advisor.planning.shares import SHARES, Categories, Division

HEADROOM = 0.08  # of memory, that must stay free: what tuning leaves (`tuners/space/memory_model.py`)

Fit = Literal["fits", "tight", "does not fit", "unknown"]


@dataclass(frozen=True)
class RankMemory:
    """Of one rank; ``low`` and ``high`` of ``peak`` differ by what cannot be told of gradients."""

    strategy: str
    ranks: int
    nodes: int
    local_batch: float
    peak_bytes: float
    high_bytes: float  # if the peak comes before any gradient is there, dividing gradients saves nothing
    reserved_bytes: float | None
    capacity_bytes: float | None
    fit: Fit
    basis: Literal["measured", "measured elsewhere", "categories"]
    assumed: str = ""  # of how the strategy divides memory


@dataclass(frozen=True)
class Memory:
    """Memory of ranks: what was measured, and what follows.

    Attributes:
        categories: Of one process.
        peaks: Measured bytes of one rank by strategy and place.
        capacity: Of one GPU; of a node where ranks share the host's memory.
        shared: Whether ranks of a node share the capacity.
        divisions: How strategies divide it where results tell more than ``SHARES``.
    """

    categories: Categories
    peaks: Mapping[str, Mapping[Place, float]] = field(default_factory=dict)
    capacity: float | None = None
    shared: bool = False
    divisions: Mapping[str, Division] = field(default_factory=dict)

    def at(self, strategy: str, place: Place) -> RankMemory:
        """What one rank needs; measured peaks stay measured, and the nearest one starts the rest.

        Raises:
            KeyError: Nobody knows how the strategy divides memory.
        """
        peaks = {p: size for p, size in self.peaks.get(strategy, {}).items() if p.ranks > 1}
        basis: Literal["measured", "measured elsewhere", "categories"] = "categories"
        kind = strategy.partition(",")[0]  # without its settings
        division = self.divisions.get(kind, SHARES[kind])
        peak, high = division.held(self.categories, place)
        if place in peaks:
            basis, peak, high = "measured", peaks[place], peaks[place]
        elif peaks:
            basis, near = "measured elsewhere", _nearest(peaks, place)
            was, was_high = division.held(self.categories, near)
            peak, high = peaks[near] + peak - was, peaks[near] + high - was_high
            peak, high = min(peak, high), max(peak, high)
        of = self.categories
        reserved = None if of.reserved is None else peak * max(1.0, of.reserved / of.peak)
        capacity = self.capacity
        if capacity is not None and self.shared:
            capacity /= place.per_node
        fit = _fit(peak, max(high, reserved or 0.0), capacity)
        return RankMemory(
            strategy, place.ranks, place.nodes, place.local_batch, peak, high, reserved, capacity, fit, basis,
            "" if basis == "measured" else division.assumed,
        )  # fmt: skip

    def table(self, places: Sequence[Place]) -> list[RankMemory]:
        """Every strategy whose division is known, at each place; of one rank ``single`` alone."""
        return [
            self.at(strategy, place)
            for place in places
            for strategy in SHARES
            if (strategy == "single") == (place.ranks == 1)
        ]


def _nearest(peaks: Mapping[Place, float], place: Place) -> Place:
    return min(
        peaks, key=lambda p: (abs(p.local_batch - place.local_batch), abs(p.ranks - place.ranks), p.ranks)
    )


def _fit(peak: float, most: float, capacity: float | None) -> Fit:
    """Tight is where only the peak fits, not what is reserved or cannot be excluded, with headroom."""
    if capacity is None:
        return "unknown"
    if peak > capacity:
        return "does not fit"
    return "fits" if most <= (1 - HEADROOM) * capacity else "tight"
