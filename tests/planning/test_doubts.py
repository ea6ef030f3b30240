"""Measurements that each read well, and can hardly be meant together."""

import pytest

from advisor.planning.doubts import doubts
from advisor.planning.places import Place, Point


def of(*rows: tuple[int, int, float]) -> list[Point]:
    return [Point(Place(ranks, nodes, 32), step) for ranks, nodes, step in rows]


DOUBTFUL = {
    "global batch as local": (of((1, 1, 100), (2, 1, 51), (4, 1, 27)), "that of one rank, not of all"),
    "two kinds of GPU": (of((8, 1, 60), (8, 1, 100)), "8 on 1 (ranks on nodes) took 60 to 100 ms"),
    "a busy start": (
        [Point(Place(1, 1, 32), 110), Point(Place(2, 1, 16), 11)],
        "2 ranks gave 10 times the throughput of 1, where 2 would be ideal",
    ),
    "a busy machine": (of((1, 1, 100), (2, 1, 130), (4, 1, 105)), "4 ranks took less (105 ms) than of 2"),
}
FINE = {
    "one row": of((8, 1, 100)),
    "not in order": of((8, 1, 110), (1, 1, 100), (4, 1, 105)),
    "noise": of((1, 1, 100), (2, 1, 97)),
    "repeated": of((1, 1, 100), (1, 1, 104), (2, 1, 103)),
    "two nodes are a case of their own": of((2, 2, 144), (3, 3, 84)),
    "spread over more nodes": of((4, 4, 140), (8, 1, 110)),
    "parts of a batch that fit a cache": [Point(Place(1, 1, 64), 100), Point(Place(4, 1, 16), 20)],
    "smaller batches": [Point(Place(1, 1, 32), 100), Point(Place(2, 1, 16), 55)],
}


@pytest.mark.parametrize(("points", "told"), DOUBTFUL.values(), ids=DOUBTFUL)
def test_what_can_hardly_be_meant_is_told(points: list[Point], told: str) -> None:
    (said,) = doubts(points)
    assert told in said


@pytest.mark.parametrize("points", FINE.values(), ids=FINE)
def test_what_happens_is_not_doubted(points: list[Point]) -> None:
    assert doubts(points) == ()
