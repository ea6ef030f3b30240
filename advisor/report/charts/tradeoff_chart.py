"""Throughput against peak memory: which trials no other one beats in both."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from advisor.report.charts.charts import MOST_POINTS, Chart
from advisor.report.charts.drawing import (
    BACKGROUND,
    GOOD,
    MUTED,
    SERIES_1,
    SERIES_2,
    element,
    fixed,
    label,
    reach,
    round_ticks,
    svg_document,
    tooltip,
)  # fmt: skip
from advisor.report.charts.plane import HEIGHT, WIDTH, Plane
from advisor.result import wording
from advisor.result.document import Rate, ResultData, Trial

MOST_ROWS = 100


@dataclass(frozen=True)
class Point:
    """A trial whose peak memory is its own; ``mib`` of it, and how fast it was."""

    trial: Trial
    mib: float
    rate: Rate


@dataclass(frozen=True)
class TradeOff:
    """The drawing, and what it leaves out."""

    chart: Chart
    said: str
    note: str


def tradeoff(name: str, result: ResultData) -> TradeOff | None:
    """The trade-off between throughput and peak memory; ``None`` with fewer than two points.

    Args:
        name: Put before every id in the drawing.
        result: What ``tune`` found.
    """
    points = points_of(result)
    if len(points) < 2:
        return None
    front = front_of(points)
    said = _said(points, front)
    chart = Chart(
        _draw(name, points, front, result, said),
        ("trial", "changed", "peak memory (MiB)", "throughput", "on the front"),
        [_row(point, result, numbers_of(front)) for point in _listed(points, front)],
    )
    return TradeOff(chart, said, _note(points, result))


def points_of(result: ResultData) -> list[Point]:
    """The baseline and the completed trials in processes of their own, by memory.

    Processes that hold several configurations one after the other have one peak for all of them.
    """
    unit = result.baseline.throughput.unit
    points = []
    for trial in result.trials:
        peak = trial.peak_bytes or (result.baseline.peak_bytes if trial.number == 0 else 0)
        rate = trial.throughput
        alone = trial.process == "own" and trial.state == "complete"
        if alone and peak and rate is not None and rate.unit == unit:
            points.append(Point(trial, peak / wording.MIB, rate))
    return sorted(points, key=lambda point: (point.mib, -point.rate.estimate))


def front_of(points: Sequence[Point]) -> list[Point]:
    """Those that no other one beats in both; ``points`` by memory, the fastest first where equal."""
    front: list[Point] = []
    for point in points:
        if not front or point.rate.estimate > front[-1].rate.estimate:
            front.append(point)
    return front


def numbers_of(points: Sequence[Point]) -> set[int]:
    """Which trials they are."""
    return {point.trial.number for point in points}


def _draw(
    name: str, points: Sequence[Point], front: Sequence[Point], result: ResultData, said: str
) -> Markup:
    ticks = round_ticks(points[0].mib, points[-1].mib, 4)
    ends = [end for point in points for end in (point.rate.low, point.rate.high)]
    plane = Plane.over(ticks[0], ticks[-1], reach([point.rate.estimate for point in points], ends))
    parts = plane.axes([(tick, f"{tick:g}") for tick in ticks], "peak memory (MiB)", points[0].rate.unit)
    on_front = numbers_of(front)
    others = [point for point in points if point.trial.number not in on_front]
    parts.append(_others(plane, others))
    steps = f"M{_at(plane, front[0])}" + "".join(
        f"H{fixed(plane.x(point.mib))}V{fixed(plane.y(point.rate.estimate))}" for point in front[1:]
    )
    parts.append(element("path", d=steps, stroke=SERIES_1, stroke_dasharray="4 3", fill="none"))
    for point in front[:MOST_POINTS]:
        parts += _point(plane, point, result)
    for point in others:
        if _marked(point, result):
            parts += _point(plane, point, result)
    return svg_document(name, WIDTH, HEIGHT, "Throughput against peak memory of each trial", said, parts)


def _others(plane: Plane, points: Sequence[Point]) -> Markup:
    """Small dots; of many that fall on one place one is drawn."""
    places = dict.fromkeys(
        f"M{plane.x(point.mib):.0f} {plane.y(point.rate.estimate):.0f}h0" for point in points
    )
    return element(
        "path", d="".join(places) or "M0 0", stroke=MUTED, stroke_width="4.5", stroke_linecap="round",
        fill="none",
    )  # fmt: skip


def _point(plane: Plane, point: Point, result: ResultData) -> list[Markup]:
    x, y = plane.x(point.mib), plane.y(point.rate.estimate)
    marked = _marked(point, result)
    colour = {"changed": GOOD, "now": SERIES_2}.get(marked, SERIES_1)
    tip = tooltip(_told(point))
    shape = (
        element("path", tip, d=f"M{fixed(x)} {fixed(y - 6)}l6 6l-6 6l-6 -6z", fill=colour, stroke=BACKGROUND)
        if marked
        else element("circle", tip, cx=x, cy=y, r=3.5, fill=colour, stroke=BACKGROUND)
    )
    parts = [plane.whisker(point.mib, point.rate.low, point.rate.high, colour), shape]
    if marked:
        anchor = "start" if x < WIDTH - 80 else "end"
        parts.append(label(x + (9 if anchor == "start" else -9), y - 5, marked, anchor=anchor, weight="600"))
    return parts


def _marked(point: Point, result: ResultData) -> str:
    """``now`` for the baseline, ``changed`` for the confirmed recommendation."""
    if point.trial.number == 0:
        return "now"
    found = result.recommendation
    confirmed = point.trial.stage == "confirm" and point.trial.config == found.config
    return "changed" if found.verdict == "change" and confirmed else ""


def _said(points: Sequence[Point], front: Sequence[Point]) -> str:
    listed = "; ".join(_told(point) for point in front[:5])
    more = f"; {len(front) - 5} more" if len(front) > 5 else ""
    return f"Of {len(points)} trials no other beats {len(front)} in both: {listed}{more}."


def _told(point: Point) -> str:
    return f"trial {point.trial.number}, {wording.rate(point.rate)} with {wording.plain(point.mib)} MiB"


def _listed(points: Sequence[Point], front: Sequence[Point]) -> list[Point]:
    """The front and the first of the others, in the order of memory."""
    on_front = numbers_of(front)
    others = [point for point in points if point.trial.number not in on_front]
    shown = on_front | numbers_of(others[: max(0, MOST_ROWS - len(front))])
    return [point for point in points if point.trial.number in shown]


def _row(point: Point, result: ResultData, front: set[int]) -> tuple[str, ...]:
    settings = wording.differences(point.trial.config, result.baseline.config)
    return (
        str(point.trial.number),
        ", ".join(settings) or "as now",
        wording.plain(point.mib),
        wording.rate(point.rate),
        "yes" if point.trial.number in front else "",
    )


def _note(points: Sequence[Point], result: ResultData) -> str:
    shared = sum(trial.process == "shared" and trial.state == "complete" for trial in result.trials)
    changed = any(_marked(point, result) == "changed" for point in points)
    text = f"Diamond{'s: now and changed' if changed else ': now'}. Dashed: the front. "
    text += "Throughput of trials that did not run side by side: the ratios in the table of trials are surer."
    if shared:
        text += f" Left out, as they shared a process and its peak memory: {shared} of the trials."
    if len(points) > MOST_ROWS:
        text += f" The table has {MOST_ROWS} of {len(points)}; all of them are in result.json."
    return text


def _at(plane: Plane, point: Point) -> str:
    return f"{fixed(plane.x(point.mib))} {fixed(plane.y(point.rate.estimate))}"
