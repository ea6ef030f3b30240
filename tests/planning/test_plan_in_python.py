"""`advisor.plan` gives typed predictions."""

from pathlib import Path

import pytest

import advisor
from advisor.base.errors import ArgumentError
from advisor.planning.places import Place, Point

POINTS = [Point(Place(ranks, max(1, ranks // 8), 32), 100 + ranks / 4) for ranks in (1, 2, 4, 8, 16, 32)]


def test_measurements_become_predictions() -> None:
    measured, predicted = advisor.plan(POINTS, ranks=[8, 64]).predictions
    assert (measured.step_ms.estimate, measured.measured) == (102, True)
    assert (predicted.ranks, predicted.nodes, predicted.measured) == (64, 8, False)
    assert predicted.step_ms.low < predicted.step_ms.estimate < predicted.step_ms.high
    assert predicted.speedup.estimate == pytest.approx(64 * 100.25 / predicted.step_ms.estimate)


def test_hours_and_price_follow_from_samples() -> None:
    (row,) = advisor.plan(POINTS, ranks=[8], samples=8 * 32 * 1000, price=3.0).predictions
    assert row.hours is not None and row.price is not None
    assert row.hours.estimate == pytest.approx(102 * 1000 / 3.6e6)
    assert row.price.estimate == pytest.approx(row.hours.estimate * 24)


def test_a_file_does_as_well(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("ranks,nodes,local_batch,step_ms\n1,1,32,100\n2,1,32,104\n")
    assert [row.ranks for row in advisor.plan(path).predictions] == [1, 2]


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at least one"):
        advisor.plan([])


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        (POINTS[:1], "two nodes"),
        (POINTS[:5], "three or four nodes"),
        (POINTS, "64 ranks"),
    ],
)
def test_the_measurement_that_would_narrow_it_is_named(counts: list[Point], told: str) -> None:
    assert told in advisor.plan(counts, ranks=[64] if len(counts) < 6 else [128]).narrower
