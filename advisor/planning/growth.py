"""The trivial extrapolation: the last measured step, grown by a power of the ranks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.planning.places import Place, Point

NOISE = 0.01  # of a published step time, relative
CROWDED = 0.5  # exponent on one node: half of what more ranks could give is gone


@dataclass(frozen=True)
class Growth:
    """How steps of other programs grew in one situation: the exponent's median and spread over programs."""

    exponent: float
    spread: float


def situation(points: Sequence[Point], place: Place, *, named: bool = False) -> str:
    """Which kind of extrapolation it is.

    ``one_node``, or ``one_count`` where one count of ranks alone was measured; ``more_nodes``, or
    ``more_nodes_once`` where one place on several nodes alone was; ``leaving`` the first node, or
    ``leaving_named`` where the network is named: either way, so too where several nodes alone were measured
    and one is asked for.
    """
    entering = place.nodes == 1 and all(point.place.nodes > 1 for point in points)
    if place.nodes == 1 and not entering:
        return "one_node" if len({point.place.ranks for point in points}) > 1 else "one_count"
    several = {(point.place.ranks, point.place.nodes) for point in points if point.place.nodes > 1}
    if place.nodes > 1 and several:
        return "more_nodes" if len(several) > 1 else "more_nodes_once"
    return "leaving_named" if named else "leaving"


def reference(points: Sequence[Point], place: Place) -> Point:
    """The measured point from which one would extrapolate to a place.

    Of the nearest local batch; across nodes if the place is, and on one node if it is; the last one that is
    not beyond it, and of several with as many ranks the one of the nearest number of nodes.
    """

    def far(point: Point) -> tuple[object, ...]:
        measured = point.place
        batches = abs(math.log(measured.local_batch / place.local_batch))
        kinds = (measured.nodes > 1) != (place.nodes > 1)
        beyond = measured.ranks > place.ranks
        ranks = abs(math.log(measured.ranks / place.ranks))
        nodes = abs(math.log(measured.nodes / place.nodes))
        return kinds, round(batches, 6), beyond, ranks, nodes

    return min(points, key=far)


def grown(points: Sequence[Point], place: Place, public: Growth) -> float:
    """The trivial prediction in milliseconds, at the local batch of the reference.

    The exponent is that of other programs, moved by the own points as far as they bear it (a straight line in
    logarithms through the reference with a normal prior). Across nodes it is not below zero: that a step got
    shorter with more nodes is noise, and would go on up to any number of them.
    """
    start = reference(points, place)
    weight, pull = 1 / public.spread**2, public.exponent / public.spread**2
    for point in points:
        alike = point.place.local_batch == start.place.local_batch
        if not alike or (point.place.nodes > 1) != (place.nodes > 1) or point.place.ranks == 1:
            continue
        if point.place.nodes == 2 < start.place.nodes:
            continue  # two nodes are a case of their own, no slope starts there
        x = math.log(point.place.ranks / start.place.ranks)
        weight += x * x / (2 * NOISE**2)
        pull += x * math.log(point.step_ms / start.step_ms) / (2 * NOISE**2)
    exponent = pull / weight
    if place.nodes > 1:
        exponent = max(0.0, exponent)
    return start.step_ms * math.exp(exponent * math.log(place.ranks / start.place.ranks))


def crowding(points: Sequence[Point], start: Point) -> float:
    """Exponent with which a step grew on one node up to a point, from the count before; zero if it is small.

    From a half on, ranks share more than links: the CPUs and the storage that load samples, or the memory of
    a host. One means that more ranks gave no more throughput. (Public answers: mxnet issues 4120 and 7813.)
    """
    before = [
        point
        for point in points
        if point.place.nodes == 1
        and point.place.local_batch == start.place.local_batch
        and point.place.ranks < start.place.ranks
    ]
    if start.place.nodes > 1 or not before:
        return 0.0
    last = max(before, key=lambda point: point.place.ranks)
    exponent = math.log(start.step_ms / last.step_ms) / math.log(start.place.ranks / last.place.ranks)
    return min(1.0, exponent) if exponent >= CROWDED else 0.0
