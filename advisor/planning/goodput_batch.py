"""The local batch at each count that would reach the goal soonest, as far as the noise scale tells."""

from collections.abc import Sequence
from dataclasses import replace

from advisor.planning.goal import Goal, present_batch
from advisor.planning.places import Place, Point
from advisor.planning.plan import make_plan, places

HALVES = 6  # of the largest local batch measured; none larger, since nothing is known of its memory


def goodput_places(
    strategies: Sequence[Sequence[Point]], ranks: Sequence[int], per_node: int | None, goal: Goal
) -> list[Place]:
    """One place for each count: of the batches measured and halves of the largest, the one with most goodput.

    Goodput is throughput over the samples that a larger global batch needs more (``Goal.needed``).

    Args:
        strategies: Measurements of each; the best of them decides.
        ranks: Counts.
        per_node: Ranks that fit on a node.
        goal: With the noise scale.
    """
    measured = [point for points in strategies for point in points]
    largest = max(point.place.local_batch for point in measured)
    batches = {point.place.local_batch for point in measured}
    batches |= {largest / 2**k for k in range(HALVES + 1) if largest / 2**k >= 1}
    present = present_batch(measured)
    chosen: dict[int, tuple[float, Place]] = {}
    for batch in sorted(batches):
        asked = [
            place if place.local_batch == batch else replace(place, local_batch=batch)
            for place in places(measured, ranks, per_node)
        ]
        for points in strategies:
            for row, place in zip(make_plan(points, asked, far=True).predictions, asked, strict=True):
                needed = goal.needed(place.ranks * batch, present).estimate
                worth = row.throughput.estimate / needed
                if place.ranks not in chosen or worth > chosen[place.ranks][0]:
                    chosen[place.ranks] = worth, place
    return [chosen[count][1] for count in ranks]
