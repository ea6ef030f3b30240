"""Memory of one rank at other counts, from the categories that a profile of the program measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from advisor.planning.places import Place

HEADROOM = 0.08  # of memory, that must stay free: what tuning leaves (`tuners/space/memory_model.py`)

Fit = Literal["fits", "tight", "does not fit", "unknown"]


@dataclass(frozen=True)
class Categories:
    """Bytes at the peak of a step of one process, and how much of it the allocator had reserved.

    Activations are what the peak has beside parameters, gradients and state (devices), or ``saved`` ones that
    were counted by themselves (hosts). Those shrink while gradients grow: a step has its peak at the end of
    forward or at the end of backward.
    """

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    peak: float
    local_batch: float
    reserved: float | None = None
    saved: bool = False

    @property
    def rest(self) -> float:
        """What no category explains: contexts, workspaces, the interpreter. It stays as it is."""
        passing = self.gradients + self.activations
        if self.saved:
            passing = max(self.gradients, self.activations)
        return max(0.0, self.peak - self.parameters - self.optimizer - passing)


@dataclass(frozen=True)
class Share:
    """Of how many ranks one holds a part: of parameters, gradients and optimizer state.

    ``all`` divides over every rank, ``node`` over those of a node, ``none`` keeps it whole. ``copies`` of the
    gradients are kept besides, ``gathered`` of the parameters are whole when backward begins, beside all
    activations (the buffer that is gathered, and the parameters copied from it): a whole model as one unit,
    which is the most that sharding needs. When backward ends ``reduced`` of the gradients are whole
    (themselves, and the buffer from which they are sent), with parameters and activations gone.
    """

    parameters: Literal["none", "node", "all"] = "none"
    gradients: Literal["none", "node", "all"] = "none"
    optimizer: Literal["none", "node", "all"] = "none"
    copies: float = 0.0
    gathered: float = 0.0
    reduced: float = 0.0


SHARES = {
    "single": Share(),
    "local_sgd": Share(),
    "ddp": Share(copies=1),  # buckets, a second copy unless `gradient_as_bucket_view`
    "zero": Share(optimizer="all", copies=1),  # ZeroRedundancyOptimizer beside DistributedDataParallel
    "zero2": Share(gradients="all", optimizer="all"),
    "fsdp": Share("all", "all", "all", gathered=2, reduced=2),
    "hybrid": Share("node", "node", "node", gathered=2, reduced=2),
}
"""Rajbhandari and others, 2020, section 5, with what torch's own implementations add."""


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


@dataclass(frozen=True)
class Memory:
    """Memory of ranks: what was measured, and what follows.

    Attributes:
        categories: Of one process.
        peaks: Measured bytes of one rank by strategy and place.
        capacity: Of one GPU; of a node where ranks share the host's memory.
        shared: Whether ranks of a node share the capacity.
    """

    categories: Categories
    peaks: Mapping[str, Mapping[Place, float]] = field(default_factory=dict)
    capacity: float | None = None
    shared: bool = False

    def at(self, strategy: str, place: Place) -> RankMemory:
        """What one rank needs; measured peaks stay measured, and the nearest one starts the rest.

        Raises:
            KeyError: Nobody knows how the strategy divides memory.
        """
        peaks = {p: size for p, size in self.peaks.get(strategy, {}).items() if p.ranks > 1}
        basis: Literal["measured", "measured elsewhere", "categories"] = "categories"
        peak, high = self._model(strategy, place)
        if place in peaks:
            basis, peak, high = "measured", peaks[place], peaks[place]
        elif peaks:
            basis, near = "measured elsewhere", _nearest(peaks, place)
            was, was_high = self._model(strategy, near)
            peak, high = peaks[near] + peak - was, peaks[near] + high - was_high
            peak, high = min(peak, high), max(peak, high)
        of = self.categories
        reserved = None if of.reserved is None else peak * max(1.0, of.reserved / of.peak)
        capacity = self.capacity
        if capacity is not None and self.shared:
            capacity /= place.per_node
        fit = _fit(peak, max(high, reserved or 0.0), capacity)
        return RankMemory(
            strategy, place.ranks, place.nodes, place.local_batch, peak, high, reserved, capacity, fit, basis
        )

    def table(self, places: Sequence[Place]) -> list[RankMemory]:
        """Every strategy whose division is known, at each place; of one rank ``single`` alone."""
        return [
            self.at(strategy, place)
            for place in places
            for strategy in SHARES
            if (strategy == "single") == (place.ranks == 1)
        ]

    def _model(self, strategy: str, place: Place) -> tuple[float, float]:
        of, share = self.categories, SHARES[strategy]
        over = {"none": 1, "node": place.per_node, "all": place.ranks}
        parameters = of.parameters / over[share.parameters]
        activations, whole = of.activations * place.local_batch / of.local_batch, 0.0
        if over[share.parameters] > 1:
            activations += share.gathered * of.parameters
            whole = share.reduced * of.gradients
        copies = share.copies * of.gradients if place.ranks > 1 else 0.0
        stays = parameters + of.optimizer / over[share.optimizer] + copies + of.rest
        gradients = of.gradients / over[share.gradients]
        if of.saved:
            stays += max(activations, whole + gradients)
            return stays, stays
        stays += max(activations, whole)
        return stays + gradients, stays + of.gradients


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
