"""Charts as inline SVG: text stays text, colours come from the page's variables, nothing is scripted.

The numbers of each chart stand in a table beside it, drawn from ``Chart.columns`` and ``Chart.rows``.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import quantiles

from markupsafe import Markup, escape

from advisor import wording
from advisor.result import Interval, Trial

# Fallbacks are the light colours, for places that drop style sheets.
TEXT = "var(--text, #1f2328)"
MUTED = "var(--muted, #57606a)"
BACKGROUND = "var(--background, #ffffff)"
LINE = "var(--line, #d0d7de)"
SERIES_1 = "var(--series-1, #0969da)"
SERIES_2 = "var(--series-2, #bc4c00)"
GOOD = "var(--good, #116329)"
BAD = "var(--bad, #a40e26)"
WARN = "var(--warn, #7d4e00)"

# Colour and pattern of each part of a step: orange waits, blue computes, grey is the rest.
PHASES = {
    "input_wait": (SERIES_2, "solid"),
    "transfer": (SERIES_2, "stripes"),
    "forward": (SERIES_1, "solid"),
    "backward": (SERIES_1, "stripes"),
    "optimizer": (SERIES_1, "dots"),
    "communication": (WARN, "stripes"),
    "sync": (BAD, "dots"),
    "other": (MUTED, "dots"),
}
MOST_POINTS = 500  # above it a chart of single points is neither readable nor small
BANDS = 60


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
    most = max((bar.value.high for bar in bars), default=0.0)
    ticks = _ticks(0, most)
    scale = (width - left - right) / max(ticks[-1], most) if ticks[-1] > 0 else 0.0
    bottom = 14 + row * len(bars)
    parts = _vertical_axis(
        ticks, lambda value: left + value * scale, 8, bottom, f"{unit}, from zero", width - right
    )
    for index, bar in enumerate(bars):
        middle = 14 + row * index + row / 2
        colour = MUTED if bar.present else SERIES_1
        low, at, high = (left + scale * end for end in (bar.value.low, bar.value.estimate, bar.value.high))
        parts += [
            _text(left - 10, middle + 4, bar.label, anchor="end", weight="600"),
            _element(
                "rect", x=left, y=middle - 9, width=at - left, height=18, rx=2, fill=colour, opacity="0.28"
            ),
            _element("path", d=_whisker(low, high, middle), stroke=colour, stroke_width="2", fill="none"),
            _element("circle", cx=at, cy=middle, r=3.5, fill=colour, stroke=BACKGROUND),
        ]
    rows = [(bar.label, *_ends(bar.value)) for bar in bars]
    said = "; ".join(f"{bar.label} {wording.interval(bar.value, unit)}" for bar in bars)
    svg = _svg(name, width, bottom + 38, title, f"{title}. {said}.", parts)
    return Chart(svg, ("setting", f"estimate ({unit})", "low", "high"), rows)


def step_bar(name: str, phases_ms: Mapping[str, float]) -> Chart:
    """Where the time of one step goes: one stacked bar from zero, parts told apart by pattern too."""
    parts = {phase: ms for phase, ms in phases_ms.items() if ms > 0}
    total = sum(parts.values())
    width, top, height, side = 860, 30, 44, 14
    scale = (width - 2 * side) / total if total > 0 else 0.0
    drawn = [_patterns(name)]
    at = float(side)
    for phase, ms in parts.items():
        wide = ms * scale
        label = f"{phase_words(phase)} {wording.share_of(ms, total)}"
        drawn.append(
            _element(
                "rect", _tooltip(f"{label}, {wording.plain(ms)} ms"), x=at, y=top, width=max(wide - 1, 0.4),
                height=height, fill=_fill(name, phase), stroke=_colour(phase),
            )
        )  # fmt: skip
        if wide > 7.2 * len(label):
            drawn.append(_text(at, top - 8, label, weight="600"))
        at += wide
    ticks = [tick for tick in _ticks(0, total) if tick <= total]
    bottom = top + height
    drawn += _vertical_axis(ticks, lambda value: side + value * scale, bottom, bottom + 6, "ms", width - side)
    rows = [
        (phase_words(phase), wording.plain(ms), wording.share_of(ms, total))
        for phase, ms in phases_ms.items()
    ]
    largest = max(parts, key=lambda phase: parts[phase], default="")
    said = (
        f"{wording.share_of(parts[largest], total)} is {phase_words(largest)}."
        if largest
        else "No parts were seen."
    )
    svg = _svg(name, width, bottom + 42, "One step of the baseline, by part", f"Stacked bar. {said}", drawn)
    return Chart(svg, ("part", "ms", "share"), rows)


def phase_words(phase: str) -> str:
    """``input_wait`` as ``input wait``."""
    return wording.shown(phase, 40).replace("_", " ") or "(unnamed)"


def phase_style(phase: str) -> tuple[str, str]:
    """Colour variable and pattern of a part, for legends: ``("series-2", "stripes")``."""
    return _colour(phase).removeprefix("var(--").partition(",")[0], PHASES.get(phase, PHASES["other"])[1]


def progress(name: str, trials: Sequence[Trial], smallest_detectable: float) -> Chart:
    """Ratios to the baseline by trial number with their intervals; failures stand as crosses below.

    More than 500 measured trials become bands of quantiles.
    """
    measured = [trial for trial in trials if trial.against_baseline is not None]
    failed = [trial.number for trial in trials if trial.state == "failed"]
    ends = [end for trial in measured if (r := trial.against_baseline) for end in (r.low, r.high)]
    frame = _Frame(
        last=max((trial.number for trial in trials), default=1),
        low=min([*ends, 1 - smallest_detectable]),
        high=max([*ends, 1 + smallest_detectable]),
    )
    noise_top, noise_bottom = frame.y(1 + smallest_detectable), frame.y(1 - smallest_detectable)
    parts = [
        _element(
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
        columns = ("trial", "stage", "estimate", "low", "high")
    crosses = "".join(f"M{_n(frame.x(n) - 3)} 243l6 6m0 -6l-6 6" for n in failed)
    parts += drawn
    if crosses:
        parts.append(_element("path", d=crosses, stroke=BAD, stroke_width="1.5", fill="none"))
    best = max((r.estimate for t in measured if (r := t.against_baseline)), default=None)
    said = f"{len(measured)} measured ratios, {len(failed)} failed trials."
    if best is not None:
        said += f" The highest estimate is {wording.plain(best)}x; only a confirmation decides."
    svg = _svg(name, frame.WIDTH, 300, "Ratio to the baseline by trial, larger is better", said, parts)
    return Chart(svg, columns, rows)


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
        low, high, at = self.low, self.high, ratio
        if self.logarithmic:
            low, high, at = math.log(self.low), math.log(self.high), math.log(max(ratio, self.low))
        span = (high - low) or 1.0
        return self.BOTTOM - 6 - (self.BOTTOM - self.TOP - 12) * (at - low) / span

    def axes(self) -> list[Markup]:
        parts = []
        for tick in self._ratio_ticks():
            y = self.y(tick)
            strong = tick == 1
            parts += [
                _element(
                    "path", d=f"M{self.LEFT} {_n(y)}H{self.WIDTH - self.RIGHT}",
                    stroke=MUTED if strong else LINE,
                    stroke_dasharray="none" if strong else "2 3",
                ),
                _text(self.LEFT - 8, y + 4, f"{tick:g}x", anchor="end", colour=MUTED),
            ]  # fmt: skip
        for tick in _ticks(0, self.last):
            if tick <= self.last and tick == int(tick):
                parts.append(_text(self.x(tick), 268, f"{tick:g}", anchor="middle", colour=MUTED))
        parts.append(_text(self.WIDTH - self.RIGHT, 288, "trial number", anchor="end", colour=MUTED))
        return parts

    def _ratio_ticks(self) -> list[float]:
        if self.logarithmic:
            return [
                t for t in (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0) if self.low <= t <= self.high
            ]
        ticks = [tick for tick in _ticks(self.low, self.high) if self.low <= tick <= self.high]
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
            f"M{_n(x)} {_n(frame.y(ratio.low))}V{_n(frame.y(ratio.high))}"
        )
        tip = _tooltip(f"trial {trial.number}, {trial.stage}: {wording.short_ratio(ratio)}")
        if confirmed:
            shape = f"M{_n(x)} {_n(y - 6)}l6 6l-6 6l-6 -6z"
            dots.append(_element("path", tip, d=shape, fill=GOOD, stroke=BACKGROUND))
        else:
            dots.append(_element("circle", tip, cx=x, cy=y, r=3.5, fill=SERIES_1, stroke=BACKGROUND))
        low, estimate, high = wording.ratio_parts(ratio)
        rows.append((str(trial.number), trial.stage, estimate, low, high))
    lines = [
        _element(
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
        there = [f"{_n(x)} {_n(frame.y(level[upper]))}" for x, level in zip(middles, levels, strict=True)]
        back = [f"{_n(x)} {_n(frame.y(level[lower]))}" for x, level in zip(middles, levels, strict=True)]
        return f"M{'L'.join(there)}L{'L'.join(reversed(back))}z"

    median = "M" + "L".join(
        f"{_n(x)} {_n(frame.y(level[2]))}" for x, level in zip(middles, levels, strict=True)
    )
    drawn = [
        _element("path", d=band(0, 4), fill=SERIES_1, opacity="0.18"),
        _element("path", d=band(1, 3), fill=SERIES_1, opacity="0.35"),
        _element("path", d=median, stroke=SERIES_1, stroke_width="2", fill="none"),
    ]
    return drawn, rows


def _svg(
    name: str, width: float, height: float, title: str, description: str, parts: Iterable[Markup]
) -> Markup:
    head = [
        _element("title", escape(title), id=f"{name}-title"),
        _element("desc", escape(description), id=f"{name}-desc"),
    ]
    return _element(
        "svg", *head, *parts, viewBox=f"0 0 {_n(width)} {_n(height)}", width="100%", role="img",
        aria_labelledby=f"{name}-title {name}-desc", font_family="inherit",
    )  # fmt: skip


def _vertical_axis(
    ticks: Sequence[float], x: Callable[[float], float], top: float, bottom: float, unit: str, right: float
) -> list[Markup]:
    lines = "".join(f"M{_n(x(tick))} {_n(top)}V{_n(bottom)}" for tick in ticks)
    parts = [_element("path", d=lines, stroke=LINE, fill="none")]
    parts += [_text(x(tick), bottom + 14, f"{tick:g}", anchor="middle", colour=MUTED) for tick in ticks]
    return [*parts, _text(right, bottom + 31, unit, anchor="end", colour=MUTED)]


def _patterns(name: str) -> Markup:
    """Stripes and dots in every colour that a part uses, under ids of this drawing."""
    patterns = []
    for phase, (colour, kind) in PHASES.items():
        if kind == "solid":
            continue
        mark = (
            _element("path", d="M0 8L8 0M-2 2L2 -2M6 10L10 6", stroke=BACKGROUND, stroke_width="2")
            if kind == "stripes"
            else _element("circle", cx=4, cy=4, r=1.4, fill=BACKGROUND)
        )
        ground = _element("rect", width=8, height=8, fill=colour)
        patterns.append(
            _element(
                "pattern",
                ground,
                mark,
                id=f"{name}-{phase}",
                width=8,
                height=8,
                patternUnits="userSpaceOnUse",
            )
        )
    return _element("defs", *patterns)


def _fill(name: str, phase: str) -> str:
    known = phase if phase in PHASES else "other"
    return PHASES[known][0] if PHASES[known][1] == "solid" else f"url(#{name}-{known})"


def _colour(phase: str) -> str:
    return PHASES.get(phase, PHASES["other"])[0]


def _ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round positions (1, 2 or 5 times a power of ten) that reach over ``low`` to ``high``."""
    span = high - low
    if span <= 0:
        return [low]
    rough = span / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [float(f"{index * step:.10g}") for index in range(first, last + 1)]


def _ends(value: Interval) -> tuple[str, str, str]:
    digits = wording.decimals(value.low, value.high)
    return (
        wording.number(value.estimate, digits),
        wording.number(value.low, digits),
        wording.number(value.high, digits),
    )


def _whisker(low: float, high: float, y: float) -> str:
    return f"M{_n(low)} {_n(y)}H{_n(high)}M{_n(low)} {_n(y - 8)}v16M{_n(high)} {_n(y - 8)}v16"


def _tooltip(text: str) -> Markup:
    return _element("title", escape(text))


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", colour: str = TEXT, weight: str = "400"
) -> Markup:
    return _element(
        "text", escape(text), x=x, y=y, text_anchor=anchor, fill=colour, font_size="13", font_weight=weight
    )


def _element(tag: str, *children: Markup, **attributes: float | str) -> Markup:
    """An element whose attributes are quoted and escaped; numbers are written to one decimal."""
    written = "".join(f' {key.replace("_", "-")}="{escape(_n(value))}"' for key, value in attributes.items())
    inside = Markup("").join(children)
    return Markup(f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>")


def _n(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
