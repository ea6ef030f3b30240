"""What can hardly be meant in measurements that each read well."""

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from advisor.planning.growth import CROWDED
from advisor.planning.places import Point, middles

UNLIKE = 1.3  # slowest over fastest of one place; equal GPUs differ by 1.08 in the mean (Sinha, SC 2022)
DIP = 1.1  # a smaller count's step over a larger one's, above what equal GPUs differ


def doubts(points: Sequence[Point]) -> tuple[str, ...]:
    """A sentence for each thing to look at again; they change no prediction."""
    return (*_shrinking(points), *_unlike(points), *_dips(points), *_beyond_ideal(points))


def _shrinking(points: Sequence[Point]) -> Iterator[str]:
    """A local batch that is the global one: steps get shorter nearly as ranks get more."""
    for few, many in _pairs(points):
        if many.step_ms < few.step_ms * (few.place.ranks / many.place.ranks) ** CROWDED:
            yield (
                f"a step of {few.place.ranks} to {many.place.ranks} ranks fell from {few.step_ms:g} to "
                f"{many.step_ms:g} ms with the same local batch of {few.place.local_batch:g}: local_batch is "
                "that of one rank, not of all"
            )
            return


def _unlike(points: Sequence[Point]) -> Iterator[str]:
    by_place: dict[object, list[Point]] = {}
    for point in points:
        by_place.setdefault(point.place, []).append(point)
    for rows in by_place.values():
        steps = sorted(row.step_ms for row in rows)
        if steps[-1] > UNLIKE * steps[0]:
            place = rows[0].place
            yield (
                f"{place.ranks} on {place.nodes} (ranks on nodes) took {steps[0]:g} to {steps[-1]:g} ms: "
                "the middle one is taken; a file is of one program on one kind of GPU"
            )


def _dips(points: Sequence[Point]) -> Iterator[str]:
    """More ranks took less, but not as a share of the work would."""
    for few, many in _pairs(points):
        share = (few.place.ranks / many.place.ranks) ** CROWDED
        if few.step_ms * share <= many.step_ms < few.step_ms / DIP:
            yield (
                f"a step of {many.place.ranks} ranks took less ({many.step_ms:g} ms) than of "
                f"{few.place.ranks} ({few.step_ms:g} ms): measured beside other work?"
            )


def _beyond_ideal(points: Sequence[Point]) -> Iterator[str]:
    """More ranks with smaller local batches that give more a rank: smaller batches seldom do."""
    rows = sorted(middles(points), key=lambda point: point.place.ranks)
    for few, many in combinations(rows, 2):
        times = _samples_a_ms(many) / _samples_a_ms(few)
        ideal = many.place.ranks / few.place.ranks
        if many.place.local_batch < few.place.local_batch and times > UNLIKE * ideal > UNLIKE:
            yield (
                f"{many.place.ranks} ranks gave {times:.3g} times the throughput of {few.place.ranks}, where "
                f"{ideal:.3g} would be ideal: was the slower one measured beside other work?"
            )
            return


def _samples_a_ms(point: Point) -> float:
    return point.place.ranks * point.place.local_batch / point.step_ms


def _pairs(points: Sequence[Point]) -> Iterator[tuple[Point, Point]]:
    """Neighbouring counts of one local batch on no fewer nodes; two nodes are a case of their own."""
    for batch in sorted({point.place.local_batch for point in points}):
        rows = [point for point in middles(points) if point.place.local_batch == batch]
        rows.sort(key=lambda point: (point.place.ranks, point.place.nodes))
        for few, many in pairwise(rows):
            two_nodes = few.place.nodes == 2 < many.place.nodes
            more = few.place.ranks < many.place.ranks and few.place.nodes <= many.place.nodes
            if more and not two_nodes:
                yield few, many
