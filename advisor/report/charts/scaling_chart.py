"""Throughput and efficiency by number of ranks, with what would be ideal, from the trials of a search."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from advisor.report.charts.charts import Chart
from advisor.report.charts.drawing import BACKGROUND, MUTED, SERIES_1, element, reach, svg_document, tooltip
from advisor.report.charts.parallel import (
    SINGLE,
    changes_learning,
    count_of,
    own_devices,
    ran,
    ranks_in_words,
    strategy_of,
)
from advisor.report.charts.plane import HEIGHT, WIDTH, Plane
from advisor.result import wording
from advisor.result.document import Interval, Rate, ResultData, Trial
from advisor.result.wording import shown


@dataclass(frozen=True)
class Point:
    """The trial with the highest throughput (by its lower end) of those with so many ranks.

    Attributes:
        ideal: Throughput if nothing were lost beside the smallest number of ranks.
        efficiency: ``rate`` over ``ideal``; its ends are made of the ends of both throughputs.
        speedup: ``rate`` over that of the smallest number of ranks, likewise.
    """

    ranks: int
    trial: Trial
    rate: Rate
    ideal: float
    efficiency: Interval
    speedup: Interval

    @property
    def name(self) -> str:
        """``2 ranks (ddp)``."""
        return f"{ranks_in_words(self.ranks)} ({shown(strategy_of(self.trial.config), 40) or 'unnamed'})"


@dataclass(frozen=True)
class Scaling:
    """How throughput follows the number of ranks: ``said`` is what was measured, ``meaning`` the ideal."""

    said: list[str]
    meaning: str
    note: str
    throughput: Chart
    efficiency: Chart


def scaling(result: ResultData, prefix: str = "") -> Scaling | None:
    """The scaling that the trials show; ``None`` unless at least two numbers of ranks were measured.

    Args:
        result: What ``tune`` found.
        prefix: Put before every id in a drawing.
    """
    points = points_of(result)
    if len(points) < 2:
        return None
    return Scaling(
        said=said(points),
        meaning=meaning(result, points),
        note=_note(points),
        throughput=_throughput(f"{prefix}scaling", points),
        efficiency=_efficiency(f"{prefix}efficiency", points),
    )


def points_of(result: ResultData) -> list[Point]:
    """One point for each number of ranks that was measured, in ascending order.

    Trials with another batch size or with a strategy under which learning differs are left out, since they
    do not do the same work, and one process that drives several devices, since it is no rank.
    """
    best: dict[int, Trial] = {}
    for trial in result.trials:
        if _counts(trial, result) and _order(trial) > _order(best.get(count_of(trial))):
            best[count_of(trial)] = trial
    if not best:
        return []
    least = min(best)
    base = _rate(best[least])
    return [
        _point(ranks, best[ranks], base, ranks / least if own_devices(result) else 1.0, ranks == least)
        for ranks in sorted(best)
    ]


def said(points: Sequence[Point]) -> list[str]:
    """``2 ranks (ddp): 1.08x (1.02 to 1.14), 108 % of ideal (102 % to 114 %)`` for all but the first."""
    return [
        f"{point.name}: {wording.short_ratio(point.speedup)}, "
        f"{wording.percent(point.efficiency.estimate)} of ideal "
        f"({wording.percent(point.efficiency.low)} to {wording.percent(point.efficiency.high)})"
        for point in points[1:]
    ]


def meaning(result: ResultData, points: Sequence[Point]) -> str:
    """What the ideal is here, in a sentence or two."""
    least = ranks_in_words(points[0].ranks)
    if own_devices(result):
        return (
            f"Each rank has a GPU of its own. Ideal grows in proportion to the number of ranks, from "
            f"{least}. The ranks share out one batch of the same size: each computes less per step the more "
            "there are."
        )
    allowed = result.machine.get("cpus_allowed")
    cpus = f"the same {allowed} CPUs" if isinstance(allowed, int) and allowed > 0 else "the same CPUs"
    return (
        f"All trials share {cpus}: more ranks get no more cores, each gets a smaller part of them. Ideal is "
        f"therefore the throughput of {least}, at any number of ranks; on machines with more cores or "
        "devices the same strategies may scale otherwise."
    )


def _note(points: Sequence[Point]) -> str:
    text = (
        "Dots: for each number of ranks the trial with the highest throughput, by the lower end of its "
        "interval. Dashed: ideal. The trials were not interleaved with each other; ends of intervals are "
        "combined, so that a ratio is rather too uncertain than too sure."
    )
    differing = [wording.differences(p.trial.config, points[0].trial.config) for p in points[1:]]
    own = ("strategy=", "ranks=")
    if any(not setting.startswith(own) for settings in differing for setting in settings):
        text += " The trials differ in other settings too: see the table of trials."
    if any(point.trial.state == "pruned" for point in points):
        text += " Some of them were dropped early, after few steps."
    return text


def _counts(trial: Trial, result: ResultData) -> bool:
    rate = trial.throughput
    return (
        ran(trial)
        and rate is not None
        and rate.unit == result.baseline.throughput.unit
        and rate.low > 0
        and trial.config.get("batch_size") == result.baseline.config.get("batch_size")
        and not changes_learning(trial.config)
        and (strategy_of(trial.config) == SINGLE or count_of(trial) > 1)
    )


def _order(trial: Trial | None) -> tuple[bool, float]:
    """Complete trials before those dropped early, then by the lower end of their throughput."""
    if trial is None:
        return False, 0.0
    return trial.state == "complete", _rate(trial).low


def _rate(trial: Trial) -> Rate:
    assert trial.throughput is not None
    return trial.throughput


def _point(ranks: int, trial: Trial, base: Rate, more: float, is_base: bool) -> Point:
    rate = _rate(trial)
    speedup = Interval(
        estimate=rate.estimate / base.estimate,
        low=1.0 if is_base else rate.low / base.high,
        high=1.0 if is_base else rate.high / base.low,
    )
    efficiency = Interval(estimate=speedup.estimate / more, low=speedup.low / more, high=speedup.high / more)
    return Point(ranks, trial, rate, base.estimate * more, efficiency, speedup)


def _throughput(name: str, points: Sequence[Point]) -> Chart:
    unit = points[0].rate.unit
    highs = reach([p.rate.estimate for p in points], [p.rate.high for p in points])
    plane = Plane.over(0, len(points) - 1, [0.0, *highs, *(p.ideal for p in points)])
    parts = plane.axes(_places(points), "ranks", unit)
    parts.append(plane.line([(at, point.ideal) for at, point in enumerate(points)], MUTED, dashed=True))
    for at, point in enumerate(points):
        parts.append(plane.whisker(at, point.rate.low, point.rate.high, SERIES_1))
        tip = tooltip(f"{point.name}, trial {point.trial.number}: {wording.rate(point.rate)}")
        parts.append(_dot(plane.x(at), plane.y(point.rate.estimate), tip))
    rows = [
        (str(p.ranks), shown(strategy_of(p.trial.config), 40), *wording.interval_parts(p.rate),
         wording.plain(p.ideal), str(p.trial.number))
        for p in points
    ]  # fmt: skip
    told = "; ".join(f"{point.name} {wording.rate(point.rate)}" for point in points)
    drawn = svg_document(
        name, WIDTH, HEIGHT, "Throughput by number of ranks, larger is better",
        f"Dots with intervals. {told}.", parts,
    )  # fmt: skip
    return Chart(drawn, ("ranks", "strategy", f"estimate ({unit})", "low", "high", "ideal", "trial"), rows)


def _efficiency(name: str, points: Sequence[Point]) -> Chart:
    highs = reach([p.efficiency.estimate for p in points], [p.efficiency.high for p in points])
    plane = Plane.over(0, len(points) - 1, [0.0, 100.0, *(100 * high for high in highs)])
    parts = plane.axes(_places(points), "ranks", "% of ideal")
    parts.append(plane.line([(at, 100.0) for at in range(len(points))], MUTED, dashed=True))
    rows: list[tuple[str, ...]] = []
    for at, point in enumerate(points):
        low, estimate, high = (
            100 * end for end in (point.efficiency.low, point.efficiency.estimate, point.efficiency.high)
        )
        share = wording.percent(point.efficiency.estimate)
        if at:
            parts.append(plane.whisker(at, low, high, SERIES_1))
        parts.append(_dot(plane.x(at), plane.y(estimate), tooltip(f"{point.name}: {share} of ideal")))
        ends = [wording.percent(end) for end in (point.efficiency.low, point.efficiency.high)]
        ratio = wording.ratio_parts(point.speedup)[1] if at else "1"
        rows.append((str(point.ranks), share, *(ends if at else ["", ""]), f"{ratio}x"))
    told = "; ".join(said(points))
    drawn = svg_document(
        name, WIDTH, HEIGHT, "Efficiency by number of ranks: throughput over ideal",
        f"Dots with intervals. {told}.", parts,
    )  # fmt: skip
    columns = ("ranks", "efficiency", "low", "high", f"throughput over {ranks_in_words(points[0].ranks)}")
    return Chart(drawn, columns, rows)


def _places(points: Sequence[Point]) -> list[tuple[float, str]]:
    return [(float(at), str(point.ranks)) for at, point in enumerate(points)]


def _dot(x: float, y: float, tip: Markup) -> Markup:
    return element("circle", tip, cx=x, cy=y, r=4, fill=SERIES_1, stroke=BACKGROUND)
