"""Layouts of transformers: read, predicted, and chosen with odds."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from advisor.base.errors import UsageError
from advisor.planning.layouts.layout import Layout, Shape, Timed
from advisor.planning.layouts.layout_file import holds_layouts, read_layouts, read_timed
from advisor.planning.layouts.layout_plan import candidates, plan_layouts
from advisor.planning.layouts.priors import LayoutPriors
from advisor.planning.layouts.step_model import StepModel
from advisor.report.layout_lines import MOST, layout_rows, render_layouts

SMALL = Shape(layers=24, hidden=2048, sequence=1024, heads=16)
LARGE = Shape(layers=48, hidden=8192, sequence=2048, heads=64)
PRIORS = LayoutPriors.stored()
HEADER = (
    "ranks,nodes,global_batch,tensor_parallel,pipeline_stages,micro_batch,layers,hidden,sequence,step_ms\n"
)


def laid(
    tensor: int, stages: int, micro: int, *, ranks: int = 8, shape: Shape = SMALL, batch: float = 64
) -> Layout:
    return Layout(shape, ranks, max(1, ranks // 8), tensor, stages, micro, batch)


def step_ms(*layouts: Layout) -> list[float]:
    return StepModel([], PRIORS.rates).steps_ms(layouts)


def test_a_pipeline_of_few_micro_batches_stands_idle() -> None:
    """With p stages and m micro-batches a step takes (m+p-1)/m of the work of a stage."""
    headless = Shape(layers=24, hidden=2048, sequence=1024, heads=16, vocabulary=1)
    few, many = (laid(1, 8, 1, shape=headless, batch=batch) for batch in (8, 512))
    a_sample = [step / layout.global_batch for layout in (few, many) for step in step_ms(layout)]
    assert a_sample[0] / a_sample[1] == pytest.approx((15 / 8) / (519 / 512), rel=0.05)  # and an update


def test_tensors_split_over_nodes_are_slow() -> None:
    within, across = (laid(t, 1, 4, ranks=64, shape=LARGE, batch=512) for t in (8, 16))
    steps = step_ms(within, across)
    assert steps[1] > 1.5 * steps[0]


def test_micro_batches_too_small_for_the_device_are_slow() -> None:
    one, eight = step_ms(laid(1, 1, 1), laid(1, 1, 8))
    assert one > 1.3 * eight


def test_what_was_measured_moves_the_rest() -> None:
    """A machine half as fast throughout: layouts that were not measured follow."""
    known = [laid(1, 1, 4), laid(2, 1, 4), laid(1, 2, 4), laid(2, 2, 2)]
    measured = [Timed(layout, 2 * step) for layout, step in zip(known, step_ms(*known), strict=True)]
    asked = laid(4, 1, 4)
    moved = StepModel(measured, PRIORS.rates).steps_ms([asked])[0]
    assert moved == pytest.approx(2 * step_ms(asked)[0], rel=0.25)


def test_many_layouts_of_a_small_model_say_little_more_of_a_large_one_than_one_does() -> None:
    """Small micro-batches twice as slow: of the model itself that counts as ever."""
    layouts = [laid(t, p, m) for t in (1, 2, 4) for p in (1, 2) for m in (1, 2, 4, 8)]
    slower = [2.0 if layout.micro_batch < 4 else 1.0 for layout in layouts]
    measured = [Timed(one, k * ms) for one, k, ms in zip(layouts, slower, step_ms(*layouts), strict=True)]
    unmoved = StepModel([], PRIORS.rates).fitted()
    alone, together = StepModel(measured, PRIORS.rates), StepModel(measured, PRIORS.rates, PRIORS.together)
    moved = [np.abs(model.fitted(LARGE) - unmoved).max() for model in (alone, together)]
    assert 0.05 < moved[1] < 0.7 * moved[0]
    assert together.fitted(SMALL).tolist() == alone.fitted(SMALL).tolist()


def test_measured_steps_stay_measured_and_lead_if_they_are_fastest() -> None:
    fast, slow = laid(1, 1, 8), laid(8, 1, 1)
    plan = plan_layouts([Timed(fast, 200.0), Timed(slow, 900.0)], [slow, fast])
    first, second = plan.predictions
    assert (first.layout, first.measured, first.step_ms.low) == (fast, True, 200.0)
    assert first.odds == 1 and second.odds == 0
    assert plan.sentences == ["8 ranks: tp1 pp1 dp8 mb8 is fastest (100%)"]
    assert plan.record_lines == []


def test_layouts_that_differ_little_cannot_be_told_apart() -> None:
    plan = plan_layouts([Timed(laid(1, 1, 8), 280.0)], [laid(1, 1, 4), laid(2, 1, 8)])
    assert "cannot be told apart" in plan.sentences[0]
    assert math.isclose(sum(row.odds for row in plan.predictions), 1)
    assert "choices" in plan.record_lines[0]
    for row in plan.predictions:
        assert row.step_ms.low < row.step_ms.estimate < row.step_ms.high


def test_candidates_hold_no_more_than_what_was_measured() -> None:
    large = Timed(laid(8, 4, 2, ranks=64, shape=LARGE, batch=256), 9000.0)
    found = candidates([Timed(laid(1, 1, 8), 280.0), large], [512], None, "keep-global")
    assert found
    assert all(one.shape == LARGE and one.global_batch == 256 and one.tensor <= 8 for one in found)
    assert max(one.held_parameters for one in found) <= max(large.layout.held_parameters, SMALL.parameters)
    local = candidates([large], [128], None)
    assert {one.global_batch for one in local} == {512}


def test_no_candidate_says_what_to_do() -> None:
    large = Timed(laid(8, 8, 1, ranks=64, shape=LARGE, batch=64), 9000.0)
    with pytest.raises(UsageError, match="no layout of 8 ranks") as told:
        candidates([large], [8], None)
    assert "--at" in str(told.value.hint)


def test_a_file_is_read_with_defaults(tmp_path: Path) -> None:
    file = tmp_path / "layouts.csv"
    file.write_text(HEADER + "64,8,512,2,4,8,30,3072,2048,3975.2\n")
    assert holds_layouts(file)
    (one,) = read_timed(file)
    assert one.layout.shape == Shape(30, 3072, 2048, 24)
    assert (one.layout.replicas, one.layout.micro_batches, one.step_ms) == (8, 8, 3975.2)
    assert read_layouts(file) == [one.layout]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("8,1,64,3,1,4,24,2048,1024,9", "8 ranks do not divide by 3"),
        ("8,1,64,1,8,4,4,2048,1024,9", "8 stages are more than 4 layers"),
        ("8,1,64,1,1,16,24,2048,1024,9", "a replica has 8 samples"),
        ("8,16,64,1,1,4,24,2048,1024,9", "8 ranks cannot lie on 16 nodes"),
        ("8,1,64,1,1,0.5,24,2048,1024,9", "micro_batch is 0.5, not a count"),
        ("8,1,64,1,1,4,24,2048,1024,0", "step_ms is 0"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_line(tmp_path: Path, row: str, told: str) -> None:
    file = tmp_path / "layouts.csv"
    file.write_text(HEADER + row + "\n")
    with pytest.raises(UsageError) as error:
        read_timed(file)
    assert told in str(error.value)
    assert error.value.where == f"{file}:2"


def test_a_missing_column_is_named_with_those_needed(tmp_path: Path) -> None:
    file = tmp_path / "layouts.csv"
    file.write_text("ranks,nodes,tensor_parallel,step_ms\n8,1,2,100\n")
    with pytest.raises(UsageError, match="no column global_batch") as error:
        read_timed(file)
    assert "pipeline_stages" in str(error.value.hint)


def test_the_likeliest_are_told_and_json_has_all() -> None:
    measured = [Timed(laid(1, 1, 8), 280.0)]
    plan = plan_layouts(measured, candidates(measured, [8, 16], None))
    document = plan.as_json()
    json.dumps(document, allow_nan=False)
    assert len(document["layouts"]) == len(plan.predictions) > len(layout_rows(plan)) - 1
    assert sum(row[0] == "8" for row in layout_rows(plan)) == MOST
    text = render_layouts(plan)
    assert "| ranks | layout |" in text and "not in it: memory" in text
