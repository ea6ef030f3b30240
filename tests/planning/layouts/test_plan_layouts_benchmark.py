"""The figures of the back-test of layouts that are stored, and the tally that makes them."""

import json

import pytest

from advisor.planning.layouts.layout import Layout, Shape, Timed
from advisor.planning.layouts.priors import LayoutPriors
from advisor.planning.layouts.step_model import StepModel
from benchmarks.plan_layouts import RESULTS, Tally, errors_together

SHAPE = Shape(24, 2048, 1024, 16)


def test_regret_is_what_the_chosen_layout_took_over_the_fastest() -> None:
    priors = LayoutPriors.stored()
    layouts = [Layout(SHAPE, 8, 1, t, p, 1, 64) for t, p in ((1, 1), (8, 1), (1, 8))]
    steps = StepModel([], priors.rates).steps_ms(layouts)
    chosen = steps.index(min(steps))
    measured = [120.0 if k == chosen else 100.0 + 100 * k for k in range(3)]
    fastest = min(measured)
    tally = Tally()
    tally.ask(
        StepModel([], priors.rates), [Timed(one, ms) for one, ms in zip(layouts, measured, strict=True)]
    )
    assert tally.row["regret"] == pytest.approx(120 / fastest - 1)
    assert tally.row["choices"] == 1 and tally.row["layouts"] == 3


def test_two_layouts_are_no_choice() -> None:
    tally = Tally()
    rows = [Timed(Layout(SHAPE, 8, 1, t, 1, 1, 64), 100.0) for t in (1, 2)]
    tally.ask(StepModel([], LayoutPriors.stored().rates), rows)
    assert tally.regrets == []


def test_stored_regrets_are_those_that_reports_tell() -> None:
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    told = LayoutPriors.stored().record
    assert told["one_node"].regret == pytest.approx(rows["to 8 ranks"]["regret"], abs=1e-4)
    far = rows["to many nodes, a small model given"]
    assert told["more_nodes"].regret == pytest.approx(far["regret"], abs=1e-4)
    assert max(row["regret"] for row in rows.values()) <= 0.06


def test_errors_that_all_layouts_of_a_width_share_go_together() -> None:
    rates = LayoutPriors.stored().rates
    layouts = [
        Layout(Shape(24, hidden, 1024, hidden // 128), 8, 1, t, 1, m, 64)
        for hidden in (1024, 2048)
        for t in (1, 2, 4)
        for m in (1, 2, 4, 8)
    ]
    steps = StepModel([], rates).steps_ms(layouts)
    wide = [1.5 if one.shape.hidden == 2048 else 1.0 for one in layouts]
    rows = [Timed(one, k * ms) for one, k, ms in zip(layouts, wide, steps, strict=True)]
    assert errors_together(rows) > 0.6
