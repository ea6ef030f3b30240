"""One knob at a time: the ratios to the baseline under each of its values."""

from collections.abc import Sequence

from markupsafe import Markup

from advisor import wording
from advisor.charts import Chart
from advisor.drawing import MUTED, SERIES_1, TEXT, element, fixed, reach, svg_document
from advisor.effects import Spread
from advisor.plane import HEIGHT, WIDTH, Plane

MOST_DOTS = 12  # under one value; where one has more, boxes of quartiles are drawn
MOST_VALUES = 24
BOX = 18


def slice_chart(name: str, knob: str, spreads: Sequence[Spread]) -> Chart:
    """Ratios by value of a knob: dots with intervals and a bar at the median, or a box of quartiles.

    Args:
        name: Put before every id in the drawing.
        knob: As it is shown.
        spreads: From left to right.
    """
    drawn = spreads[:MOST_VALUES]
    boxes = any(len(spread.ratios) > MOST_DOTS for spread in drawn)
    ends = [end for spread in drawn for end in _ends(spread, boxes)]
    plane = Plane.over(0, max(len(drawn) - 1, 1), [*ends, 1.0])
    places = [(float(at), name_of(spread)) for at, spread in enumerate(drawn)]
    parts = plane.axes(places, knob[:28], "ratio to the baseline")
    left, right = fixed(plane.x(0) - 14), fixed(plane.x(plane.last) + 14)
    parts.append(element("path", d=f"M{left} {fixed(plane.y(1))}H{right}", stroke=MUTED, fill="none"))
    for at, spread in enumerate(drawn):
        parts += _box(plane, at, spread) if boxes else _dots(plane, at, spread)
    said = "; ".join(
        f"{name_of(spread)}: median {wording.plain(spread.levels[2])}x of {_trials(spread)}"
        for spread in drawn
    )
    if len(drawn) < len(spreads):
        said += f"; {len(spreads) - len(drawn)} more values are in the table"
    title = f"Ratio to the baseline by {knob}"
    rows = [
        (name_of(spread), str(len(spread.ratios)), *(wording.plain(level) for level in spread.levels[::2]))
        for spread in spreads
    ]
    return Chart(
        svg_document(name, WIDTH, HEIGHT, title, f"{said}.", parts),
        (knob, "trials", "lowest", "median", "highest"),
        rows,
    )


def name_of(spread: Spread) -> str:
    """The value, marked where it is the one of the baseline."""
    return f"{wording.shown(spread.value, 40) or '(empty)'}{' (now)' if spread.present else ''}"


def _trials(spread: Spread) -> str:
    count = len(spread.ratios)
    return f"{count} trial{'' if count == 1 else 's'}"


def _ends(spread: Spread, boxes: bool) -> list[float]:
    if boxes:
        return [spread.levels[0], spread.levels[-1]]
    estimates = [ratio.estimate for ratio in spread.ratios]
    return reach(estimates, [end for ratio in spread.ratios for end in (ratio.low, ratio.high)])


def _dots(plane: Plane, at: int, spread: Spread) -> list[Markup]:
    """Beside each other, from the lowest to the highest."""
    count = len(spread.ratios)
    apart = min(7.0, 36 / count)
    dots = lines = ""
    for index, ratio in enumerate(spread.ratios):
        x = fixed(plane.x(at) + (index - (count - 1) / 2) * apart)
        dots += f"M{x} {fixed(plane.y(ratio.estimate))}h0"
        lines += f"M{x} {fixed(plane.y(ratio.low))}V{fixed(plane.y(ratio.high))}"
    return [
        element("path", d=lines, stroke=SERIES_1, fill="none"),
        element("path", d=dots, stroke=SERIES_1, stroke_width="5", stroke_linecap="round", fill="none"),
        _median(plane, at, spread),
    ]


def _box(plane: Plane, at: int, spread: Spread) -> list[Markup]:
    low, quarter, _, upper, high = (plane.y(level) for level in spread.levels)
    x = plane.x(at)
    line = f"M{fixed(x)} {fixed(low)}V{fixed(quarter)}M{fixed(x)} {fixed(upper)}V{fixed(high)}"
    return [
        element("path", d=line, stroke=SERIES_1, fill="none"),
        element(
            "rect", x=x - BOX / 2, y=upper, width=BOX, height=max(quarter - upper, 0.5), stroke=SERIES_1,
            fill=SERIES_1, fill_opacity="0.3",
        ),
        _median(plane, at, spread),
    ]  # fmt: skip


def _median(plane: Plane, at: int, spread: Spread) -> Markup:
    y = fixed(plane.y(spread.levels[2]))
    return element(
        "path", d=f"M{fixed(plane.x(at) - BOX / 2)} {y}h{BOX}", stroke=TEXT, stroke_width="2", fill="none"
    )
