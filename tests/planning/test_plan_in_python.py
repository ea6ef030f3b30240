"""`advisor.plan` gives typed predictions."""

from dataclasses import replace
from pathlib import Path

import pytest
from planned_results import with_memory

import advisor
from advisor.base.errors import ArgumentError, UsageError
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


def test_epochs_do_as_well_where_one_is_known() -> None:
    points = [replace(point, epoch_samples=8 * 32 * 100) for point in POINTS]
    plan = advisor.plan(points, ranks=[8], epochs=10, price=3.0)
    hours = plan.predictions[0].hours
    assert hours is not None and hours.estimate == pytest.approx(102 * 1000 / 3.6e6)
    assert "10 epochs of 25,600 samples each" in [row.what for row in plan.basis]
    with pytest.raises(ArgumentError, match="samples and epochs"):
        advisor.plan(points, epochs=1, samples=1)


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


BATCHES = [
    Point(Place(ranks, 1, batch), 20 + 2 * batch + 4 * (ranks > 1))
    for ranks in (1, 2, 4, 8)
    for batch in (8, 32)
]


def test_goodput_takes_smaller_batches_where_large_ones_teach_little() -> None:
    """Little noise in gradients: samples beyond it teach nothing, so many ranks take few each."""
    chosen = [
        advisor.plan(BATCHES, ranks=[64], batch="goodput", noise_scale=noise).predictions[0].local_batch
        for noise in (64.0, 1e6)
    ]
    assert chosen[0] < chosen[1] == 32


def test_goodput_without_a_noise_scale_is_refused() -> None:
    with pytest.raises(UsageError, match="noise scale"):
        advisor.plan(BATCHES, ranks=[8], batch="goodput")


def test_failures_and_noise_make_hours_longer() -> None:
    asked = {"ranks": [64], "samples": 1e8}
    plain, counted = (
        advisor.plan(POINTS, **asked, **more).predictions[0].hours  # type: ignore[arg-type]
        for more in ({}, {"noise_scale": 1000.0, "failures": 500.0})
    )
    assert plain is not None and counted is not None and counted.estimate > 1.3 * plain.estimate


def test_results_are_planned_by_strategy_with_memory() -> None:
    result = with_memory()
    rows = advisor.plan([result], ranks=[2, 8], strategy="fsdp", gpu="H100").predictions
    assert [row.strategy for row in rows] == ["fsdp", "fsdp"]
    assert rows[0].measured and rows[1].fit == "fits"
    assert rows[1].peak_bytes is not None and rows[1].peak_bytes.estimate > 0
    with pytest.raises(UsageError, match="no strategy zero3"):
        advisor.plan([result], strategy="zero3")
    with pytest.raises(UsageError, match="memory"):
        advisor.plan(POINTS, gpu="H100")
