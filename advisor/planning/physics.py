"""A step as computing, waiting for the slowest, and the communication that does not hide.

``t = c_b (1 + j ln n) + softplus(net - w c_b)`` with
``net = rate x bytes x g^q x congestion + latency x levels + per_rank x chain``: c_b is the computing time of
a local batch, n ranks on R nodes, g of them on the fullest; bytes, levels of trees and chains of messages are
those of the strategy's laws (``scheme.py``): a ring has 2(n-1)/n and a chain of 2(n-1). Rates differ for one
node, two nodes and more, since two nodes are a case of their own (a ring of two has each link twice).
The parameters have weak priors learnt from other programs; what was measured moves them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.planning.descent import Descent, Vector
from advisor.planning.places import Place, Point
from advisor.planning.scheme import Scheme

NAMES = (
    "waiting", "one_node", "two_nodes", "more_nodes", "sharing", "congestion", "latency", "per_rank",
    "hidden", "fixed",
)  # fmt: skip

NOISE = 0.02  # of a published step time, relative
EXPOSED_NOISE = 0.05  # of exposed communication, relative to the step
SOFT = 0.02  # of computing: how sharply communication starts to stick out
BATCH_NOISE = 0.05  # computing of one local batch off the straight line, relative


@dataclass(frozen=True)
class Prior:
    """A normal distribution of one parameter on its own scale (logarithms but for ``sharing``)."""

    mean: float
    sd: float


@dataclass(frozen=True)
class Parts:
    """A predicted step in milliseconds, in the order in which it is drawn."""

    computing_ms: float
    waiting_ms: float
    communication_ms: float  # exposed
    bubble_ms: float = 0.0  # while a pipeline fills and drains

    @property
    def step_ms(self) -> float:
        """All of it."""
        return self.computing_ms + self.waiting_ms + self.communication_ms + self.bubble_ms


@dataclass(frozen=True)
class _Places:
    ranks: Vector
    nodes: Vector
    widest: Vector
    bytes: Vector
    levels: Vector
    chain: Vector
    batch: Vector  # in units of the first point's
    off: NDArray[np.int64]  # which measured local batch it is; one beyond them for any other


@dataclass(frozen=True)
class _Seen:
    at: _Places
    step: Vector  # in units of the first point's
    exposed: Vector  # share of the step
    told: NDArray[np.bool_]


class Physics:
    """The parameters that fit measured points best, given their priors.

    Args:
        points: At least one.
        priors: By name, most as logarithms over computing; ``two_nodes`` and ``more_nodes`` are relative to
            the rate before, those that end in ``_named`` to the named network.
        network_ms: Time in which one node sends its gradients once over the named network, if it is named.
        scheme: How communication grows.
    """

    def __init__(
        self,
        points: Sequence[Point],
        priors: Mapping[str, Prior],
        network_ms: float | None = None,
        scheme: Scheme | None = None,
    ) -> None:
        self._scheme = scheme or Scheme()
        first = min(points, key=lambda point: (point.place.ranks, point.place.nodes))
        self._unit_ms = first.step_ms
        self._batch = first.place.local_batch
        self._batches = sorted({point.place.local_batch for point in points})
        self._named = None
        if network_ms is not None:
            self._named = math.log(network_ms / self._unit_ms)
        named = ("two_nodes_named", "more_nodes_named")
        known = dict(priors)
        if self._named is not None:
            known |= {name.removesuffix("_named"): priors[name] for name in named}
        count = 1 + len(NAMES) + len(self._batches)
        mean, sd = np.zeros(count), np.full(count, BATCH_NOISE)
        sd[0] = 10.0  # the computing time itself is free
        mean[1 : 1 + len(NAMES)] = [known[name].mean for name in NAMES]
        sd[1 : 1 + len(NAMES)] = [known[name].sd for name in NAMES]
        self.fitted = self._fit(points, mean, sd)

    def parts(self, place: Place) -> Parts:
        """What a step at a place consists of."""
        computing, waiting, communication = self._parts(self.fitted, self._arrays([place]))
        unit = self._unit_ms
        return Parts(float(computing[0]) * unit, float(waiting[0]) * unit, float(communication[0]) * unit)

    def value(self, name: str) -> float:
        """A fitted parameter on its prior's scale."""
        return float(self.fitted[1 + NAMES.index(name)])

    def _arrays(self, places: Sequence[Place]) -> "_Places":
        known = {batch: k for k, batch in enumerate(self._batches)}
        return _Places(
            ranks=np.array([place.ranks for place in places], float),
            nodes=np.array([place.nodes for place in places], float),
            widest=np.array([place.per_node for place in places], float),
            bytes=np.array([self._scheme.bytes(place) for place in places]),
            levels=np.array([self._scheme.levels(place) for place in places]),
            chain=np.array([self._scheme.chain(place) for place in places]),
            batch=np.array([place.local_batch for place in places], float) / self._batch,
            off=np.array([known.get(place.local_batch, len(known)) for place in places]),
        )

    def _parts(self, p: Vector, at: "_Places") -> tuple[Vector, Vector, Vector]:
        """Computing, waiting and exposed communication in units of the first point."""
        j, one, two, more, sharing, congestion, latency, per_rank, hidden, fixed = p[1 : 1 + len(NAMES)]
        fixed = 1 / (1 + math.exp(-fixed))
        off = np.append(p[1 + len(NAMES) :], 0.0)[at.off]
        computing = np.exp(p[0] + off) * (fixed + (1 - fixed) * at.batch)
        waiting = computing * math.exp(j) * np.log(at.ranks) * self._scheme.has_barrier
        across = at.nodes > 1
        rate = np.full_like(at.ranks, one)
        base = (one if self._named is None else self._named) + two
        beyond = base + more * (at.nodes > 2) + sharing * np.log(at.widest)
        rate[across] = (beyond + math.exp(congestion) * np.log2(at.nodes / 2))[across]
        net = np.exp(np.minimum(rate, 20.0)) * at.bytes
        net += across * (math.exp(latency) * at.levels + math.exp(per_rank) * at.chain)
        over = (net - computing / (1 + math.exp(-hidden))) / (SOFT * computing)
        exposed = SOFT * computing * np.logaddexp(0.0, over)
        return computing, waiting, np.where(at.ranks > 1, exposed, 0.0)

    def _residuals(self, p: Vector, seen: "_Seen") -> Vector:
        computing, waiting, communication = self._parts(p, seen.at)
        step = computing + waiting + communication
        steps = np.log(step / seen.step) / NOISE
        exposed = ((waiting + communication) / step - seen.exposed)[seen.told] / EXPOSED_NOISE
        return np.concatenate([steps, exposed])

    def _fit(self, points: Sequence[Point], mean: Vector, sd: Vector) -> Vector:
        """The parameters that fit best (``descent.py``)."""
        seen = _Seen(
            at=self._arrays([point.place for point in points]),
            step=np.array([point.step_ms for point in points]) / self._unit_ms,
            exposed=np.array([(point.exposed_ms or 0.0) / point.step_ms for point in points]),
            told=np.array([point.exposed_ms is not None and point.place.ranks > 1 for point in points]),
        )

        def residuals(p: Vector) -> Vector:
            return self._residuals(p, seen)

        return Descent(residuals, mean, sd).best(self._starts(mean, bool(seen.told.any())))

    def _starts(self, mean: Vector, exposed: bool) -> list[Vector]:
        """The priors' means; and slow links that nothing hides, since what is all hidden shows no slope.

        Those only where exposed communication was measured: times of steps alone do not tell it from waiting,
        and in the back-test the priors did better then.
        """
        if not exposed:
            return [mean]
        slow = mean.copy()
        slow[1 + NAMES.index("hidden")] -= 2.0
        slow[1 + NAMES.index("one_node")] += 1.5
        slower = slow.copy()
        slower[1 + NAMES.index("two_nodes")] += 2.0
        return [mean, slow, slower]
