"""A plan drawn: what was measured is solid, what is predicted dashed, what does not fit crossed."""

import re

import pytest

from advisor.planning.goal import Goal
from advisor.planning.memory import Memory
from advisor.planning.odds import Compared
from advisor.planning.places import Place, Point
from advisor.planning.plan import Plan, make_plan
from advisor.planning.shares import Categories
from advisor.report.charts.plan_chart import fan, memory_bars, odds_map, parts_of_steps, price_plane

POINTS = [Point(Place(ranks, 1, 32), 100 + ranks) for ranks in (1, 2, 4)]


def a_plan(goal: Goal | None = None) -> Plan:
    return make_plan(POINTS, [Place(ranks, 1, 32) for ranks in (1, 2, 4, 8)], goal=goal)


def test_the_fan_is_solid_between_measured_counts_alone() -> None:
    chart = fan("fan", a_plan())
    lines = re.findall(r'<path d="[^"]*" stroke="var\(--series-1[^>]*stroke-dasharray="([^"]+)"', chart.svg)
    assert lines == ["none", "none", "6 4"]
    assert [row[-1] for row in chart.rows] == ["measured"] * 3 + ["predicted"]
    assert [float(row[4]) for row in chart.rows] == [1, 2, 4, 8]


def test_parts_stack_to_the_step() -> None:
    plan = a_plan()
    chart = parts_of_steps("parts", plan)
    for row, drawn in zip(plan.predictions, chart.rows, strict=True):
        assert abs(sum(map(float, drawn[1:])) - row.step_ms.estimate) < 1


def test_time_against_price_needs_a_price() -> None:
    assert price_plane("price", a_plan()) is None
    chart = price_plane("price", a_plan(Goal(samples=1e6, price=2.0)))
    assert chart is not None
    hours = [float(row[1]) for row in chart.rows]
    assert hours[0] > 1.3 * hours[-1]


@pytest.mark.parametrize("price", [1.0, 1.3, 1.6, 2.0, 2.5, 3.1])
def test_a_whisker_of_price_ends_where_its_interval_does(price: float) -> None:
    plan = a_plan(Goal(samples=1e6, price=price))
    chart = price_plane("price", plan)
    assert chart is not None and plan.predictions[-1].price is not None
    top = float(re.findall(r"M[\d.]+ ([\d.]+)V", chart.svg)[-1])
    middle = float(re.findall(r"cy=\"([\d.]+)\"", chart.svg)[-1])
    bottom = max(float(y) for y in re.findall(r"M\d+ ([\d.]+)H", chart.svg))
    dear = plan.predictions[-1].price
    assert (bottom - top) / (bottom - middle) == pytest.approx(dear.high / dear.estimate, rel=0.02)


MEMORY = Memory(Categories(4e9, 4e9, 8e9, 4e9, 21e9, 32), capacity=22 * 2**30)


def test_memory_stands_against_the_capacity() -> None:
    chart = memory_bars("memory", MEMORY.table([Place(8, 1, 32)]))
    verdicts = {row[0]: row[-1] for row in chart.rows}
    assert verdicts["ddp"] == "does not fit" and verdicts["fsdp"] == "fits"
    assert "stroke-dasharray" in chart.svg


def test_what_does_not_fit_is_crossed() -> None:
    compared = [Compared(8, (("ddp", 0.75), ("fsdp", 0.25)))]
    crossed = odds_map("odds", compared, MEMORY.table([Place(8, 1, 32)]))
    assert crossed.svg.count("var(--bad") == 1
    assert odds_map("odds", compared, ()).svg.count("var(--bad") == 0
    assert crossed.rows == [("8", "75%", "25%")]
