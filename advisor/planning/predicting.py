"""Measured points and priors to the time of a step at other places, with an interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from advisor.planning.effects.loading import Supply
from advisor.planning.growth import crowding, grown, reference, situation
from advisor.planning.physics import Parts, Physics
from advisor.planning.places import Place, Point, middles, shared_bytes
from advisor.planning.priors import Priors, Record
from advisor.planning.scheme import Scheme

# Share of the physics in the mean of logarithms with the trivial extrapolation, by situation: what was best
# in the back-test over public sources (`python -m benchmarks.plan_backtest` lists the errors).
PHYSICS_SHARE = {
    "one_node": 0.35,
    "one_count": 0.35,
    "more_nodes": 0.15,
    "more_nodes_once": 0.15,
    "leaving": 0.5,
    "leaving_named": 0.4,
}
NO_SLOPE = frozenset({"one_count", "more_nodes_once", "leaving"})  # a network that is named tells one
ENTERING_SHARE = 0.15  # where several nodes alone were measured and one is asked for
SHARE_WITH_EXPOSED = 0.5  # where the exposed communication itself was measured
# Scale of an interval in logarithms: a least one, and what the size of the prediction adds. On leaving the
# first node the scatter of public programs does not depend on what is predicted.
LEAST_SCALE = {
    "one_node": 0.04,
    "one_count": 0.04,
    "more_nodes": 0.04,
    "more_nodes_once": 0.04,
    "leaving": 0.08,
    "leaving_named": 0.08,
}
MOVED_SCALE = {
    "one_node": 0.3,
    "one_count": 0.3,
    "more_nodes": 0.3,
    "more_nodes_once": 0.3,
    "leaving": 0.0,
    "leaving_named": 0.0,
}
DOUBLING_SCALE = {
    "more_nodes": 0.02,
    "more_nodes_once": 0.02,
}  # what each doubling of ranks adds; elsewhere none was seen to


@dataclass(frozen=True)
class Interval:
    """An estimate with its 90 % interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Predicted:
    """The time of a step at one place."""

    place: Place
    step_ms: Interval
    trivial_ms: float  # the last measured step, grown as public programs grew
    measured: bool
    parts: Parts  # scaled to the estimate
    beyond: float  # ranks over the most ranks measured
    situation: str
    record: Record | None = None  # how such predictions did at that distance
    scale: float = 0.0  # of the interval, in logarithms
    crowded: bool = False  # ranks of a node already take most of what more of them give
    fewer: bool = False  # than were measured
    starved: bool = False  # of samples, which the CPUs of a node prepare no faster

    @property
    def spread(self) -> str:
        """Which residuals of public programs its interval rests on."""
        return spread_name(self.situation, fewer=self.fewer)


class Predictor:
    """Predicts from the measurements of one program under one strategy.

    Args:
        points: Measurements, several of one place allowed; at least one.
        priors: What other programs teach.
        network_bytes_per_s: Of one node, if the network is named and the points tell the bytes of a step.
        scheme: How communication grows; that of an all-reduce by default.
        supply: Of samples on one node, where it was measured.
    """

    def __init__(
        self,
        points: Sequence[Point],
        priors: Priors,
        network_bytes_per_s: float | None = None,
        scheme: Scheme | None = None,
        supply: Supply | None = None,
    ) -> None:
        self.points = list(points)
        self._scheme = scheme or Scheme()
        even = [replace(point, step_ms=point.step_ms / self._stretch(point.place)) for point in points]
        self._middles = middles(even)
        gave = [(p.place.per_node * p.place.local_batch, p.step_ms) for p in self._middles]
        self.supply = supply and supply.within(gave)
        self.priors = priors
        size = shared_bytes(points)
        self.network_ms = size / network_bytes_per_s * 1e3 if size and network_bytes_per_s else None
        self._physics = Physics(even, priors.physics, self.network_ms, scheme)
        self._most = max(point.place.ranks for point in points)
        self._exposed = any(point.exposed_ms is not None for point in points)

    def _stretch(self, place: Place) -> float:
        """How much longer a step is by the bubble of a pipeline: everything else is told without it."""
        return 1 + self._scheme.bubble(place)

    def at(self, place: Place) -> Predicted:
        """What a step at a place takes: as measured, if it was; else predicted."""
        stretch = self._stretch(place)
        kind = situation(self.points, place, named=self.network_ms is not None)
        parts = self._physics.parts(place)
        trivial = self._trivial(place, kind)
        beyond = place.ranks / self._most
        here = sorted(point.step_ms for point in self.points if point.place == place)
        if here:
            step = Interval(_quantile(here, 0.5), _quantile(here, 0.05), _quantile(here, 0.95))
            parts = _scaled(parts, step.estimate, stretch)
            return Predicted(place, step, trivial * stretch, True, parts, beyond, kind)
        entering = place.nodes == 1 and kind.startswith("leaving")
        share = ENTERING_SHARE if entering else PHYSICS_SHARE[kind]
        share = SHARE_WITH_EXPOSED if self._exposed else share
        estimate = parts.step_ms**share * trivial ** (1 - share)
        start = reference(self._middles, place)
        moved = abs(math.log(estimate / start.step_ms)) + abs(math.log(parts.step_ms / trivial))
        crowded = self._crowded_ms(place)
        if crowded is not None:
            estimate = max(estimate, crowded)
        scale = LEAST_SCALE[kind] + MOVED_SCALE[kind] * moved
        scale += DOUBLING_SCALE.get(kind, 0.0) * abs(math.log2(place.ranks / start.place.ranks))
        fewer = start.place.ranks > place.ranks or start.place.nodes > place.nodes == 1
        spread = self.priors.spread[spread_name(kind, fewer=fewer)]
        estimate = self._beside_batches(place, estimate)
        low = min(estimate * math.exp(spread.low * scale), self._perfect_ms(start, place, kind))
        if crowded is not None:
            low = min(low, start.step_ms)  # as if only links were shared, whose cost is there already
        starved = self._preparing_ms(place) > estimate
        estimate = max(estimate, self._preparing_ms(place))
        high = max(estimate * math.exp(spread.high * scale), self._loading_ms(place))
        step = Interval(estimate * stretch, low * stretch, high * stretch)
        return Predicted(
            place,
            step,
            trivial * stretch,
            False,
            _scaled(parts, step.estimate, stretch),
            beyond,
            kind,
            None if fewer else self._record(kind, beyond),
            scale,
            crowded is not None,
            fewer,
            starved,
        )

    def _beside_batches(self, place: Place, estimate: float) -> float:
        """No longer than a larger batch took there, no shorter than a smaller one."""
        there = [p for p in self._middles if replace(p.place, local_batch=place.local_batch) == place]
        least = max((p.step_ms for p in there if p.place.local_batch < place.local_batch), default=0.0)
        most = min((p.step_ms for p in there if p.place.local_batch > place.local_batch), default=math.inf)
        return estimate if least > most else min(max(estimate, least), most)

    def _perfect_ms(self, start: Point, place: Place, kind: str) -> float:
        """The step under perfect scaling from a measured one, where nothing excludes it; else no bound.

        One count alone tells no slope, nor does one node tell a network that is not named; a smaller batch
        may take time in proportion, as it does for programs that fill a device with little.
        """
        smaller = place.local_batch / start.place.local_batch
        more = place.ranks > start.place.ranks and place.nodes >= start.place.nodes
        if smaller < 1 or (smaller == 1 and more and kind in NO_SLOPE):
            return start.step_ms * smaller
        return math.inf

    def _loading_ms(self, place: Place) -> float:
        """The step where a node gives no more samples than it gave while its ranks waited for data.

        Its CPUs or its storage may be used up; more ranks may as well bring workers of their own, so this
        bounds the slow end alone, as storage does, of which a cache may hold a part. Zero where nothing
        waited on fewer ranks a node and no reading was measured.
        """
        waiting = [p for p in self._middles if p.waits_for_data and p.place.per_node < place.per_node]
        samples = place.per_node * place.local_batch
        read = 0.0 if self.supply is None else self.supply.reading_ms(samples)
        if not waiting:
            return read
        ms = min(p.step_ms / (p.place.per_node * p.place.local_batch) for p in waiting)  # of one sample
        return max(ms * samples, read)

    def _preparing_ms(self, place: Place) -> float:
        """The step in which the CPUs of a node like the measured one prepare the samples of its ranks."""
        return 0.0 if self.supply is None else self.supply.preparing_ms(place.per_node * place.local_batch)

    def _crowded_ms(self, place: Place) -> float | None:
        """The step where ranks of one node already took most of each other's gain, and more share a node."""
        widest = max(
            (point for point in self._middles if point.place.nodes == 1),
            key=lambda point: point.place.ranks,
            default=None,
        )
        if widest is None or place.per_node <= widest.place.ranks:
            return None
        exponent = crowding(self._middles, widest)
        if not exponent:
            return None
        batches = place.local_batch / widest.place.local_batch
        times: float = (place.per_node / widest.place.ranks) ** exponent
        return widest.step_ms * batches * times

    def _trivial(self, place: Place, kind: str) -> float:
        """The trivial extrapolation, at this local batch: computing differs, communication does not."""
        start = reference(self._middles, place).place
        moved = self._physics.parts(place).computing_ms
        moved -= self._physics.parts(Place(place.ranks, place.nodes, start.local_batch)).computing_ms
        step = grown(self._middles, place, self.priors.growth[kind])
        return max(step + moved, step * min(1.0, place.local_batch / start.local_batch))

    def _record(self, kind: str, beyond: float) -> Record | None:
        rows = self.priors.record.get(kind, ())
        return next((row for row in rows if beyond <= row.up_to), rows[-1] if rows else None)


def spread_name(situation: str, *, fewer: bool) -> str:
    """The name under which residuals are stored: towards fewer ranks apart from towards more."""
    return f"{situation}_fewer" if fewer else situation


def _scaled(parts: Parts, step_ms: float, stretch: float) -> Parts:
    """Parts that add up to a step, of which a bubble stretched the rest."""
    factor = step_ms / stretch / parts.step_ms
    return Parts(
        parts.computing_ms * factor,
        parts.waiting_ms * factor,
        parts.communication_ms * factor,
        step_ms * (1 - 1 / stretch),
    )


def _quantile(values: Sequence[float], share: float) -> float:
    """Linear between the sorted values."""
    at = share * (len(values) - 1)
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])
