"""Charts as inline SVG: text stays text, colours come from the page's variables, nothing is scripted.

The numbers of each chart stand in a table beside it, drawn from ``Chart.columns`` and ``Chart.rows``.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from markupsafe import Markup

from advisor.report.charts.drawing import (
    BACKGROUND,
    BAD,
    GOOD,
    LINE,
    MUTED,
    PHASES,
    SERIES_1,
    TEXT,
    element,
    fixed,
    known_phase,
    label,
    phase_colour,
    reach,
    round_ticks,
    svg_document,
    tooltip,
    vertical_axis,
)  # fmt: skip
from advisor.result import wording
from advisor.result.document import Interval, Trial

MOST_POINTS = 500  # above it a chart of single points is neither readable nor small
BANDS = 60
MOST_CROSSES = 200  # of which each tells its own cause


@dataclass(frozen=True)
class Chart:
    """A drawing, and the numbers it shows."""

    svg: Markup
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Bar:
    """One measured quantity in a bar chart; ``present`` marks the user's own setting."""

    label: str
    value: Interval
    present: bool = False


def before_after(name: str, title: str, unit: str, bars: Sequence[Bar]) -> Chart:
    """Horizontal bars from zero with a dot at the estimate and a whisker for the interval.

    Args:
        name: Prefix of the ids in the drawing, unique on the page.
        title: What is measured, and which direction is better.
        unit: Written at the axis.
        bars: From top to bottom.
    """
    width, left, right, row = 350, 80, 18, 42
    known = [bar.value.estimate if wording.undetermined(bar.value) else bar.value.high for bar in bars]
    most = max(known, default=0.0)
    ticks = round_ticks(0, most)
    scale = (width - left - right) / max(ticks[-1], most) if ticks[-1] > 0 else 0.0
    bottom = 14 + row * len(bars)
    parts = vertical_axis(
        ticks, lambda value: left + value * scale, 8, bottom, f"{unit}, from zero", width - right
    )
    for index, bar in enumerate(bars):
        middle = 14 + row * index + row / 2
        colour = MUTED if bar.present else SERIES_1
        low, at, high = (left + scale * end for end in (bar.value.low, bar.value.estimate, bar.value.high))
        whisker = "" if wording.undetermined(bar.value) else _whisker(low, high, middle)
        parts += [
            label(left - 10, middle + 4, bar.label, anchor="end", weight="600"),
            element(
                "rect", x=left, y=middle - 9, width=at - left, height=18, rx=2, fill=colour, opacity="0.28"
            ),
            element("path", d=whisker, stroke=colour, stroke_width="2", fill="none"),
            element("circle", cx=at, cy=middle, r=3.5, fill=colour, stroke=BACKGROUND),
        ]
    rows = [(bar.label, *wording.interval_parts(bar.value)) for bar in bars]
    said = "; ".join(f"{bar.label} {wording.interval(bar.value, unit)}" for bar in bars)
    whole = svg_document(name, width, bottom + 38, title, f"{title}. {said}.", parts)
    return Chart(whole, ("setting", f"estimate ({unit})", "low", "high"), rows)


def phase_words(phase: str) -> str:
    """``input_wait`` as ``input wait``."""
    return wording.shown(phase, 40).replace("_", " ") or "(unnamed)"


def phase_style(phase: str) -> tuple[str, str]:
    """Colour variable and pattern of a part, for legends: ``("series-2", "stripes")``."""
    return phase_colour(phase).removeprefix("var(--").partition(",")[0], PHASES[known_phase(phase)][1]


def progress(name: str, trials: Sequence[Trial], smallest_detectable: float) -> Chart:
    """Ratios to the baseline by trial number with their intervals; failures stand as crosses below.

    The thin line is the highest estimate so far. More than 500 measured trials become bands of quantiles.
    """
    measured = [trial for trial in trials if trial.against_baseline is not None]
    failed = [trial for trial in trials if trial.state == "failed"]
    ratios = [r for trial in measured if (r := trial.against_baseline)]
    most_noise, least_noise = 1 + smallest_detectable, 1 / (1 + smallest_detectable)
    ends = [least_noise, most_noise, *(end for ratio in ratios for end in (ratio.low, ratio.high))]
    ends = reach([1.0, *(ratio.estimate for ratio in ratios)], ends)
    frame = _Frame(
        last=max((trial.number for trial in trials), default=1),
        low=min(ends),
        high=max(ends),
    )
    noise_top, noise_bottom = frame.y(most_noise), frame.y(least_noise)
    parts = [
        element(
            "rect", x=frame.LEFT, y=noise_top, width=frame.WIDTH - frame.LEFT - frame.RIGHT,
            height=noise_bottom - noise_top, fill=MUTED, opacity="0.14",
        ),
        *frame.axes(),
    ]  # fmt: skip
    if len(measured) > MOST_POINTS:
        drawn, rows = _bands(frame, measured)
        columns: tuple[str, ...] = ("trials", "lowest", "quarter", "median", "three quarters", "highest")
    else:
        drawn, rows = _points(frame, measured)
        columns = ("trial", "stage", "estimate", "low", "high", "cause of failure")
        rows = sorted([*rows, *_failed_rows(failed)], key=lambda row: int(row[0]))
    parts += [*drawn, *_best_so_far(frame, measured), *_crosses(frame, failed)]
    best = max((ratio.estimate for ratio in ratios), default=None)
    said = f"{len(measured)} measured ratios, {len(failed)} failed trials{_by_cause(failed)}."
    if best is not None:
        said += f" The highest estimate is {wording.plain(best)}x; only a confirmation decides."
    whole = svg_document(
        name, frame.WIDTH, 300, "Ratio to the baseline by trial, larger is better", said, parts
    )
    return Chart(whole, columns, rows)


def _by_cause(failed: Sequence[Trial]) -> str:
    """`` (timeout 2, oom_host 1)``."""
    counts = Counter(trial.cause or "internal" for trial in failed)
    listed = ", ".join(f"{cause} {count}" for cause, count in counts.most_common())
    return f" ({listed})" if listed else ""


def _failed_rows(failed: Sequence[Trial]) -> list[tuple[str, ...]]:
    return [
        (str(trial.number), trial.stage, "", "", "", trial.cause or "internal")
        for trial in failed[:MOST_POINTS]
    ]


def _crosses(frame: "_Frame", failed: Sequence[Trial]) -> list[Markup]:
    """One for each failure, which tells its cause; of very many one shape for each cause."""
    grouped: dict[str, list[Trial]] = {}
    for trial in failed:
        cause = trial.cause or "internal"
        name = f"trial {trial.number}: {cause}" if len(failed) <= MOST_CROSSES else cause
        grouped.setdefault(name, []).append(trial)
    return [
        element(
            "path", tooltip(name), stroke=BAD, stroke_width="1.5", fill="none",
            d="".join(f"M{fixed(frame.x(trial.number) - 3)} 243l6 6m0 -6l-6 6" for trial in group),
        )
        for name, group in grouped.items()
    ]  # fmt: skip


def _best_so_far(frame: "_Frame", measured: Sequence[Trial]) -> list[Markup]:
    """A thin line of steps through the highest estimate so far."""
    best, path = -math.inf, ""
    for trial in measured:
        if (ratio := trial.against_baseline) is not None and ratio.estimate > best:
            best = ratio.estimate
            x, y = fixed(frame.x(trial.number)), fixed(frame.y(best))
            path += f"H{x}V{y}" if path else f"M{x} {y}"
    if not path:
        return []
    end = fixed(frame.WIDTH - frame.RIGHT)
    return [element("path", d=f"{path}H{end}", stroke=TEXT, stroke_opacity="0.6", fill="none")]


@dataclass(frozen=True)
class _Frame:
    """The plane of the progress chart: trial number to the right, ratio upwards."""

    last: int
    low: float
    high: float
    WIDTH = 860
    LEFT = 48
    RIGHT = 12
    TOP = 12
    BOTTOM = 232

    @property
    def logarithmic(self) -> bool:
        return self.low > 0 and self.high / self.low > 4

    def x(self, number: float) -> float:
        return self.LEFT + 8 + (self.WIDTH - self.LEFT - self.RIGHT - 16) * number / max(self.last, 1)

    def y(self, ratio: float) -> float:
        low, high, at = self.low, self.high, min(max(ratio, self.low), self.high)
        if self.logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(at)
        span = (high - low) or 1.0
        return self.BOTTOM - 6 - (self.BOTTOM - self.TOP - 12) * (at - low) / span

    def axes(self) -> list[Markup]:
        parts = []
        for tick in self._ratio_ticks():
            y = self.y(tick)
            strong = tick == 1
            parts += [
                element(
                    "path", d=f"M{self.LEFT} {fixed(y)}H{self.WIDTH - self.RIGHT}",
                    stroke=MUTED if strong else LINE,
                    stroke_dasharray="none" if strong else "2 3",
                ),
                label(self.LEFT - 8, y + 4, f"{tick:g}x", anchor="end", colour=MUTED),
            ]  # fmt: skip
        for tick in round_ticks(0, self.last):
            if tick <= self.last and tick == int(tick):
                parts.append(label(self.x(tick), 268, f"{tick:g}", anchor="middle", colour=MUTED))
        parts.append(label(self.WIDTH - self.RIGHT, 288, "trial number", anchor="end", colour=MUTED))
        return parts

    def _ratio_ticks(self) -> list[float]:
        if self.logarithmic:
            return [
                t for t in (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0) if self.low <= t <= self.high
            ]
        ticks = [tick for tick in round_ticks(self.low, self.high) if self.low <= tick <= self.high]
        return sorted({*ticks, 1.0})


def _points(frame: _Frame, measured: Sequence[Trial]) -> tuple[list[Markup], list[tuple[str, ...]]]:
    whiskers = {"confirm": "", "other": ""}
    dots: list[Markup] = []
    rows: list[tuple[str, ...]] = []
    for trial in measured:
        ratio = trial.against_baseline
        assert ratio is not None
        x, y = frame.x(trial.number), frame.y(ratio.estimate)
        confirmed = trial.stage == "confirm"
        whiskers["confirm" if confirmed else "other"] += (
            f"M{fixed(x)} {fixed(frame.y(ratio.low))}V{fixed(frame.y(ratio.high))}"
        )
        tip = tooltip(f"trial {trial.number}, {trial.stage}: {wording.short_ratio(ratio)}")
        if confirmed:
            shape = f"M{fixed(x)} {fixed(y - 6)}l6 6l-6 6l-6 -6z"
            dots.append(element("path", tip, d=shape, fill=GOOD, stroke=BACKGROUND))
        else:
            dots.append(element("circle", tip, cx=x, cy=y, r=3.5, fill=SERIES_1, stroke=BACKGROUND))
        low, estimate, high = wording.ratio_parts(ratio)
        rows.append((str(trial.number), trial.stage, estimate, low, high, ""))
    lines = [
        element(
            "path", d=path, stroke=GOOD if kind == "confirm" else SERIES_1, stroke_width="1.5", fill="none"
        )
        for kind, path in whiskers.items()
        if path
    ]
    return lines + dots, rows


def _bands(frame: _Frame, measured: Sequence[Trial]) -> tuple[list[Markup], list[tuple[str, ...]]]:
    """Quantiles of the estimates over groups of neighbouring trials."""
    size = math.ceil(len(measured) / BANDS)
    middles: list[float] = []
    levels: list[tuple[float, float, float, float, float]] = []
    rows: list[tuple[str, ...]] = []
    for start in range(0, len(measured), size):
        group = measured[start : start + size]
        estimates = sorted(r.estimate for trial in group if (r := trial.against_baseline))
        q1, q2, q3 = quantiles(estimates, n=4, method="inclusive") if len(estimates) > 1 else estimates * 3
        level = (estimates[0], q1, q2, q3, estimates[-1])
        middles.append(frame.x((group[0].number + group[-1].number) / 2))
        levels.append(level)
        rows.append((f"{group[0].number} to {group[-1].number}", *(wording.plain(value) for value in level)))

    def band(lower: int, upper: int) -> str:
        there = [
            f"{fixed(x)} {fixed(frame.y(level[upper]))}" for x, level in zip(middles, levels, strict=True)
        ]
        back = [
            f"{fixed(x)} {fixed(frame.y(level[lower]))}" for x, level in zip(middles, levels, strict=True)
        ]
        return f"M{'L'.join(there)}L{'L'.join(reversed(back))}z"

    median = "M" + "L".join(
        f"{fixed(x)} {fixed(frame.y(level[2]))}" for x, level in zip(middles, levels, strict=True)
    )
    drawn = [
        element("path", d=band(0, 4), fill=SERIES_1, opacity="0.18"),
        element("path", d=band(1, 3), fill=SERIES_1, opacity="0.35"),
        element("path", d=median, stroke=SERIES_1, stroke_width="2", fill="none"),
    ]
    return drawn, rows


def _whisker(low: float, high: float, y: float) -> str:
    line = f"M{fixed(low)} {fixed(y)}H{fixed(high)}"
    return f"{line}M{fixed(low)} {fixed(y - 8)}v16M{fixed(high)} {fixed(y - 8)}v16"
