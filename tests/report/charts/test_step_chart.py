"""The bar of one step: parts on one scale, before and after, told apart without colour too."""

import re
from html.parser import HTMLParser
from xml.etree.ElementTree import Element, fromstring

import pytest
from result_builder import HOSTILE

from advisor.report.charts.charts import Chart
from advisor.report.charts.drawing import PHASES
from advisor.report.charts.step_chart import SIDE, WIDTH, step_bar

NOW = {"input_wait": 6.0, "forward": 2.0, "backward": 2.0, "sync": 0.0}
AFTER = {"input_wait": 1.0, "forward": 2.0, "backward": 2.0, "logging": 0.5}
SVG = "{http://www.w3.org/2000/svg}"


def drawing(chart: Chart) -> Element:
    return fromstring(str(chart.svg).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def rectangles(chart: Chart) -> list[Element]:
    """The parts of the bars, without the ground of patterns."""
    return [node for node in drawing(chart) if node.tag == f"{SVG}rect"]


def place(node: Element) -> tuple[float, float, float]:
    """Left end, top and width."""
    return float(node.get("x", "")), float(node.get("y", "")), float(node.get("width", ""))


def test_parts_fill_the_width_in_their_order_from_zero() -> None:
    parts = [place(node) for node in rectangles(step_bar("step", NOW))]
    lefts, tops, widths = zip(*parts, strict=True)
    whole = WIDTH - 2 * SIDE
    assert lefts == pytest.approx([SIDE, SIDE + 0.6 * whole, SIDE + 0.8 * whole], abs=0.1)
    assert widths == pytest.approx([0.6 * whole - 1, 0.2 * whole - 1, 0.2 * whole - 1], abs=0.1)
    assert len(set(tops)) == 1


def test_the_step_after_is_drawn_below_on_the_same_scale() -> None:
    parts = [place(node) for node in rectangles(step_bar("step", NOW, AFTER))]
    above, below = parts[:3], parts[3:]
    assert len(below) == 4
    assert {top for _, top, _ in below}.isdisjoint(top for _, top, _ in above)
    assert min(top for _, top, _ in below) > max(top for _, top, _ in above)
    assert below[1][2] == above[1][2]  # forward takes 2 ms in both
    assert below[0][2] == pytest.approx((above[0][2] + 1) / 6 - 1, abs=0.1)


def test_the_longer_of_both_steps_makes_the_scale() -> None:
    short_first = rectangles(step_bar("step", AFTER, NOW))
    assert max(left + width for left, _, width in map(place, short_first)) == pytest.approx(
        WIDTH - SIDE, abs=1.1
    )


def test_a_part_without_time_is_not_drawn_but_stands_in_the_table() -> None:
    chart = step_bar("step", NOW)
    assert len(rectangles(chart)) == 3
    assert chart.columns == ("part", "ms", "share")
    assert list(chart.rows) == [
        ("input wait", "6.00", "60 %"),
        ("forward", "2.00", "20 %"),
        ("backward", "2.00", "20 %"),
        ("sync", "0", "0 %"),
    ]


def test_the_table_of_both_names_every_part_of_either() -> None:
    chart = step_bar("step", NOW, AFTER)
    assert chart.columns == ("part", "ms before", "share before", "ms after", "share after")
    assert list(chart.rows) == [
        ("input wait", "6.00", "60 %", "1.00", "18 %"),
        ("forward", "2.00", "20 %", "2.00", "36 %"),
        ("backward", "2.00", "20 %", "2.00", "36 %"),
        ("sync", "0", "0 %", "0", "0 %"),
        ("logging", "0", "0 %", "0.500", "9.1 %"),
    ]


def test_title_and_description_say_what_is_shown() -> None:
    title, description = ("".join(node.itertext()) for node in drawing(step_bar("step", NOW))[:2])
    assert title == "One step of the baseline, by part"
    assert description == "Stacked bar. 60 % is input wait."
    assert "before (above) and after (below)" in "".join(drawing(step_bar("step", NOW, AFTER))[0].itertext())


def test_parts_are_told_apart_without_colour() -> None:
    every = dict.fromkeys(PHASES, 1.0)
    fills = [node.get("fill") for node in rectangles(step_bar("step", every))]
    assert len(fills) == len(PHASES)
    solid = [fill for fill in fills if not (fill or "").startswith("url(#step-")]
    assert len(set(solid)) == len(solid)  # no two plain parts share a colour
    assert all("".join(node.itertext()) for node in rectangles(step_bar("step", every)))


def test_two_charts_on_a_page_share_no_id() -> None:
    first, second = (set(re.findall(r' id="([^"]*)"', str(step_bar(name, NOW).svg))) for name in ("a", "b"))
    assert first and first.isdisjoint(second)


@pytest.mark.parametrize("phases", [{}, {"forward": 0.0}], ids=["none", "only zero"])
def test_a_step_without_parts_is_said_and_drawn_empty(phases: dict[str, float]) -> None:
    chart = step_bar("step", phases)
    assert rectangles(chart) == []
    assert "No parts were seen." in "".join(drawing(chart).itertext())


def test_a_step_without_parts_before_or_after_does_no_harm() -> None:
    assert len(rectangles(step_bar("step", {}, AFTER))) == 4
    assert len(rectangles(step_bar("step", NOW, {}))) == 3


@pytest.mark.parametrize("step_ms", [1e-6, 1e-3, 1.0, 1e7])
def test_steps_of_any_length_fit(step_ms: float) -> None:
    chart = step_bar("step", {"forward": 0.7 * step_ms, "other": 0.3 * step_ms})
    for node in drawing(chart).iter():
        for name in ("x", "width"):
            if node.get(name) not in (None, "100%"):
                assert 0 <= float(node.get(name, "")) <= WIDTH


def test_hostile_names_of_parts_are_text() -> None:
    chart = step_bar("step", {f"{name}{index}": 1.0 for index, name in enumerate(HOSTILE)})
    tags: set[str] = set()

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.add(tag)

    Tags().feed(str(chart.svg))
    assert tags <= {"svg", "title", "desc", "defs", "pattern", "rect", "path", "circle", "text"}
