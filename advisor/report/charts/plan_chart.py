"""A plan drawn: speed-up with its band, parts of a step, memory and capacity, time and price, odds."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from advisor.planning.memory import RankMemory
from advisor.planning.odds import Compared
from advisor.planning.places import ranks_of
from advisor.planning.plan import Plan, Prediction
from advisor.report.charts import drawing
from advisor.report.charts.charts import Chart, phase_style
from advisor.report.charts.drawing import (
    BACKGROUND,
    BAD,
    MUTED,
    SERIES_1,
    WARN,
    element,
    fixed,
    label,
    svg_document,
    tooltip,
)  # fmt: skip
from advisor.report.charts.plane import HEIGHT, LEFT, RIGHT, WIDTH, Plane
from advisor.report.plan_lines import PART_NAMES
from advisor.result import wording

MOST_BARS = 12
NAMES_WIDTH = 126  # of names of strategies: `parameter_server` is the longest of those in every plan
LETTER_WIDTH = 7.8  # of a name, in the mean
SHAPES = {
    "computing_ms": "forward",
    "waiting_ms": "idle_after_a_synchronisation",
    "communication_ms": "exposed_communication",
    "bubble_ms": "input_wait",
}
"""Parts of a predicted step as parts of a measured one look."""


def by_count(plan: Plan) -> list[Prediction]:
    """One prediction for each count, the first that was asked for, in ascending order."""
    rows: dict[int, Prediction] = {}
    for row in plan.predictions:
        rows.setdefault(row.ranks, row)
    return [rows[ranks] for ranks in sorted(rows)]


def fan(name: str, plan: Plan) -> Chart:
    """Speed-up by ranks, both doubling: measured solid, predicted dashed in its band; perfect scaling."""
    rows = by_count(plan)
    first = next((row for row in rows if row.measured), rows[0])
    ideal = [first.speedup.estimate * row.ranks / first.ranks for row in rows]
    values = [value for row in rows for value in (row.speedup.low, row.speedup.high)]
    at = [math.log2(row.ranks) for row in rows]
    plane = Plane.over(at[0], at[-1], [math.log2(value) for value in (*values, *ideal)])
    named = [(x, str(row.ranks)) for x, row in zip(at, rows, strict=True)]
    parts = plane.axes(named, "ranks", "speed-up (doubling scale)", lambda value: f"{2**value:.3g}x")
    parts.append(_band(plane, at, rows))
    parts.append(plane.line([(x, math.log2(y)) for x, y in zip(at, ideal, strict=True)], MUTED))
    for before, after in zip(range(len(rows)), range(1, len(rows)), strict=False):
        ends = [(at[k], math.log2(rows[k].speedup.estimate)) for k in (before, after)]
        solid = rows[before].measured and rows[after].measured
        parts.append(plane.line(ends, SERIES_1, dashed=not solid))
    for x, row in zip(at, rows, strict=True):
        tip = tooltip(f"{ranks_of(row.ranks)}: {_told(row)}")
        fill = SERIES_1 if row.measured else BACKGROUND
        y = plane.y(math.log2(row.speedup.estimate))
        parts.append(element("circle", tip, cx=plane.x(x), cy=y, r=4, fill=fill, stroke=SERIES_1))
    told = "; ".join(f"{ranks_of(row.ranks)} {_told(row)}" for row in rows)
    drawn = svg_document(name, WIDTH, HEIGHT, "Speed-up by number of ranks", f"{told}.", parts)
    table = [
        (
            str(row.ranks), *map(wording.plain, (row.speedup.estimate, row.speedup.low, row.speedup.high)),
            wording.plain(best), "measured" if row.measured else "predicted",
        )
        for row, best in zip(rows, ideal, strict=True)
    ]  # fmt: skip
    return Chart(drawn, ("ranks", "speed-up", "low", "high", "perfect", "from"), table)


def _told(row: Prediction) -> str:
    gain = f"{wording.plain(row.speedup.estimate)}x"
    if row.measured:
        return f"{gain}, measured"
    return f"{gain} ({wording.plain(row.speedup.low)} to {wording.plain(row.speedup.high)}), predicted"


def _band(plane: Plane, at: Sequence[float], rows: Sequence[Prediction]) -> Markup:
    def end(x: float, value: float) -> str:
        return f"{fixed(plane.x(x))} {fixed(plane.y(math.log2(value)))}"

    high = [end(x, row.speedup.high) for x, row in zip(at, rows, strict=True)]
    low = [end(x, row.speedup.low) for x, row in zip(at, rows, strict=True)]
    return element("path", d=f"M{'L'.join(high)}L{'L'.join(reversed(low))}z", fill=SERIES_1, opacity="0.2")


def parts_of_steps(name: str, plan: Plan) -> Chart:
    """A step at each count as a stacked column; the model's parts, scaled to the step."""
    rows = by_count(plan)
    drawn_rows = rows if len(rows) <= MOST_BARS else [*rows[: MOST_BARS - 1], rows[-1]]
    plane = Plane.over(0, len(drawn_rows) - 1, [0.0, *(row.step_ms.estimate for row in drawn_rows)])
    places = [(float(at), str(row.ranks)) for at, row in enumerate(drawn_rows)]
    parts = [drawing.patterns(name), *plane.axes(places, "ranks", "ms a step")]
    wide = min(26.0, 0.7 * (WIDTH - LEFT - RIGHT) / len(drawn_rows))
    for at, row in enumerate(drawn_rows):
        below = 0.0
        for part, ms in row.parts_ms.items():
            top, bottom = plane.y(below + ms), plane.y(below)
            tip = tooltip(f"{ranks_of(row.ranks)}, {PART_NAMES[part]}: {wording.plain(ms)} ms")
            shape = SHAPES[part]
            parts.append(
                element(
                    "rect", tip, x=plane.x(at) - wide / 2, y=top, width=wide, height=max(bottom - top, 0.0),
                    fill=drawing.phase_fill(name, shape), stroke=drawing.phase_colour(shape),
                )
            )  # fmt: skip
            below += ms
    table = [(str(row.ranks), *(wording.plain(ms) for ms in row.parts_ms.values())) for row in rows]
    told = "; ".join(
        f"{ranks_of(row.ranks)} "
        + ", ".join(f"{PART_NAMES[part]} {wording.plain(ms)} ms" for part, ms in row.parts_ms.items())
        for row in drawn_rows
    )
    drawn = svg_document(name, WIDTH, HEIGHT, "Parts of a step by number of ranks", f"{told}.", parts)
    return Chart(drawn, ("ranks", *(f"{PART_NAMES[part]} (ms)" for part in rows[0].parts_ms)), table)


def memory_bars(name: str, rows: Sequence[RankMemory]) -> Chart:
    """Memory of one rank by strategy: peak, lighter what is reserved or cannot be excluded, capacity."""
    gib = 2**30
    width, left, right, row_height = WIDTH, NAMES_WIDTH, 16, 30
    capacities = [row.capacity_bytes / gib for row in rows if row.capacity_bytes]
    most = [max(row.high_bytes, row.reserved_bytes or 0.0) / gib for row in rows]
    ticks = drawing.round_ticks(0, max([*most, *capacities]), 4)
    scale = (width - left - right) / ticks[-1]
    bottom = 14 + row_height * len(rows)
    parts = drawing.vertical_axis(
        ticks, lambda value: left + value * scale, 8, bottom, "GiB of one rank", width - right
    )
    for at, (row, end) in enumerate(zip(rows, most, strict=True)):
        middle = 14 + row_height * at + row_height / 2
        colour = {"does not fit": BAD, "tight": WARN}.get(row.fit, SERIES_1)
        tip = tooltip(f"{row.strategy}, {ranks_of(row.ranks)}: {wording.mib(row.peak_bytes)}, {row.fit}")
        bar: dict[str, float | str] = {"x": left, "y": middle - 8, "height": 16, "fill": colour}
        parts += [
            label(left - 8, middle + 4, row.strategy, anchor="end"),
            element("rect", width=max(end * scale, 0.6), opacity="0.3", **bar),
            element("rect", tip, width=max(row.peak_bytes / gib * scale, 0.6), **bar),
        ]
    for capacity in sorted(set(capacities)):
        x = fixed(left + capacity * scale)
        parts.append(
            element("path", d=f"M{x} 2V{bottom}", stroke=BAD, stroke_width="2", stroke_dasharray="6 4")
        )
    table = [
        (row.strategy, *(wording.mib(size) if size else "-" for size in _sizes(row)), row.fit) for row in rows
    ]
    said = "; ".join(f"{row.strategy} {wording.mib(row.peak_bytes)}, {row.fit}" for row in rows)
    drawn = svg_document(
        name, width, bottom + 38, "Memory of one rank against its capacity", f"{said}.", parts
    )
    return Chart(drawn, ("strategy", "peak", "at most", "reserved", "capacity", "verdict"), table)


def _sizes(row: RankMemory) -> tuple[float | None, ...]:
    return row.peak_bytes, row.high_bytes, row.reserved_bytes, row.capacity_bytes


def price_plane(name: str, plan: Plan) -> Chart | None:
    """Hours against price, a dot for each count; ``None`` where no price was asked for."""
    rows = [row for row in by_count(plan) if row.hours is not None and row.price is not None]
    if not rows:
        return None
    hours = [row.hours.estimate for row in rows if row.hours]
    prices = [row.price.estimate for row in rows if row.price]
    at = [math.log2(hour) for hour in hours]
    plane = Plane.over(min(at), max(at), [0.0, *(row.price.high for row in rows if row.price)])
    named = sorted(
        (x, f"{hour:,.0f}" if hour >= 10 else f"{hour:.2g}") for x, hour in zip(at, hours, strict=True)
    )
    parts = plane.axes(named, "hours (doubling scale)", "price")
    parts.append(plane.line(list(zip(at, prices, strict=True)), MUTED))
    for row, x, price in zip(rows, at, prices, strict=True):
        assert row.hours is not None and row.price is not None
        parts.append(plane.whisker(x, row.price.low, row.price.high, SERIES_1))
        parts.append(
            element(
                "circle",
                tooltip(f"{ranks_of(row.ranks)}"),
                cx=plane.x(x),
                cy=plane.y(price),
                r=4,
                fill=SERIES_1,
            )
        )
        parts.append(label(plane.x(x) + 6, plane.y(price) - 8, str(row.ranks)))
    table = [
        (str(row.ranks), wording.plain(hour), wording.plain(price))
        for row, hour, price in zip(rows, hours, prices, strict=True)
    ]
    said = "; ".join(f"{ranks_of(int(ranks))} {hour} h for {price}" for ranks, hour, price in table)
    drawn = svg_document(name, WIDTH, HEIGHT, "Time against price", f"{said}.", parts)
    return Chart(drawn, ("ranks", "hours", "price"), table)


def odds_map(name: str, compared: Sequence[Compared], memory: Sequence[RankMemory]) -> Chart:
    """Strategies by count: the darker, the likelier it is the fastest; what does not fit is crossed."""
    names = sorted({strategy for row in compared for strategy, _ in row.odds})
    refused = {(row.strategy, row.ranks) for row in memory if row.fit == "does not fit"}
    longest = max(len(part) for strategy in names for part in strategy.split(", "))
    left, top, high = max(NAMES_WIDTH, LETTER_WIDTH * longest + 8), 8, 30
    wide = (WIDTH - left - 8) / len(compared)
    parts = []
    for down, strategy in enumerate(names):
        y = top + high * down
        kind, _, settings = strategy.partition(", ")
        above = 7 if settings else 0  # of two lines
        parts.append(label(left - 8, y + high / 2 + 4 - above, kind, anchor="end"))
        if settings:
            parts.append(label(left - 8, y + high / 2 + 4 + above, settings, anchor="end", colour=MUTED))
        for across, row in enumerate(compared):
            share, x = dict(row.odds)[strategy], left + wide * across
            tip = tooltip(f"{strategy}, {ranks_of(row.ranks)}: fastest with {share:.0%}")
            box = {"x": x + 1, "y": y + 1, "width": wide - 2, "height": high - 2}
            parts.append(element("rect", **box, fill=BACKGROUND, stroke=MUTED))
            parts.append(element("rect", tip, **box, fill=SERIES_1, opacity=f"{0.55 * share:.2f}"))
            if (strategy, row.ranks) in refused:
                across_it = f"l{fixed(wide - 2)} {high - 2}m0 {2 - high}l{fixed(2 - wide)} {high - 2}"
                cross = f"M{fixed(x + 1)} {y + 1}{across_it}"
                parts.append(element("path", d=cross, stroke=BAD, fill="none"))
            parts.append(label(x + wide / 2, y + high / 2 + 4, f"{share:.0%}", anchor="middle"))
    bottom = top + high * len(names)
    for across, row in enumerate(compared):
        parts.append(
            label(left + wide * (across + 0.5), bottom + 18, str(row.ranks), anchor="middle", colour=MUTED)
        )
    parts.append(label(WIDTH - 8, bottom + 38, "ranks", anchor="end", colour=MUTED))
    table = [(str(row.ranks), *(f"{dict(row.odds)[strategy]:.0%}" for strategy in names)) for row in compared]
    said = " ".join(row.sentence + "." for row in compared)
    drawn = svg_document(name, WIDTH, bottom + 44, "Which strategy would be fastest, by count", said, parts)
    return Chart(drawn, ("ranks", *names), table)


def part_styles() -> list[tuple[str, str, str]]:
    """Name, colour and pattern of each part, for a legend."""
    return [(PART_NAMES[part], *phase_style(shape)) for part, shape in SHAPES.items()]
