"""Convergence points tell the noise scale and the samples that a target needs."""

import csv
import json
from collections import defaultdict
from pathlib import Path

import pytest

import advisor
from advisor.base.errors import UsageError
from advisor.cli import main
from advisor.planning.convergence import fitted, read_convergence
from advisor.planning.places import Place, Point

PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "data" / "convergence_points.csv"
POINTS = "ranks,nodes,local_batch,step_ms\n1,1,32,100\n2,1,32,104\n8,1,32,110\n"


def published() -> dict[str, list[tuple[float, float]]]:
    tasks = defaultdict(list)
    with PUBLISHED.open(encoding="utf-8") as opened:
        for row in csv.DictReader(opened):
            tasks[row["task"]].append((float(row["batch_size"]), float(row["mean_to_target"])))
    return dict(tasks)


def test_points_on_the_curve_give_its_noise_scale() -> None:
    curve = fitted([(batch, 1e6 * (1 + batch / 2000)) for batch in (100, 1000, 4000)])
    assert curve.noise.estimate == pytest.approx(2000, rel=0.02)
    assert curve.noise.low <= 2000 <= curve.noise.high
    assert curve.fewest == pytest.approx(1e6, rel=0.01)
    assert curve.samples(4000) == pytest.approx(3e6, rel=0.01)


@pytest.mark.parametrize("task", published())
def test_a_batch_left_out_of_published_points_is_predicted_from_the_others(task: str) -> None:
    points = published()[task]
    errors = [
        abs(fitted([*points[:at], *points[at + 1 :]]).samples(batch) / needed - 1)
        for at, (batch, needed) in enumerate(points)
    ]
    assert sum(errors) / len(errors) < 0.08


def test_the_command_takes_target_and_noise_from_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points, curve = tmp_path / "points.csv", tmp_path / "curve.csv"
    points.write_text(POINTS)
    curve.write_text("batch,samples_to_target\n32,1016000\n256,1128000\n2000,2000000\n")
    asked = ["plan", str(points), "--ranks", "1,64", "--price", "2"]
    assert main([*asked, "--convergence", str(curve), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    few, many = document["predictions"]
    assert few["hours"]["estimate"] == pytest.approx(1.016e6 / 320 / 3600, rel=0.01)
    needed = 1 + 2048 / 2000  # of a million
    assert many["hours"]["estimate"] == pytest.approx(
        1e6 * needed / many["throughput"]["estimate"] / 3600, rel=0.02
    )
    assert any("convergence points" in row["what"] for row in document["basis"])
    typed = advisor.plan(points, [1, 64], price=2, convergence=curve)
    assert typed.predictions[1].hours and typed.predictions[1].hours.estimate == many["hours"]["estimate"]
    assert main([*asked, "--convergence", str(curve), "--noise-scale", "100"]) == 2
    assert "leave out --noise-scale" in capsys.readouterr().err


def test_what_was_asked_in_samples_stays(tmp_path: Path) -> None:
    curve = tmp_path / "curve.csv"
    curve.write_text("batch,samples_to_target\n32,1016000\n2000,2000000\n")
    plan = advisor.plan([Point(Place(1, 1, 32), 100)], [1], samples=3.2e6, convergence=curve)
    assert plan.predictions[0].hours and plan.predictions[0].hours.estimate == pytest.approx(1e4 / 3600)


def test_one_batch_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "curve.csv"
    path.write_text("batch,samples_to_target\n32,1000\n32,1100\n")
    with pytest.raises(UsageError, match="one batch alone"):
        read_convergence(path)
