"""All trials at once: a line through its settings for each, and at the right what it gave."""

import math
from collections.abc import Mapping, Sequence
from statistics import quantiles

from markupsafe import Markup, escape

from advisor import wording
from advisor.charts import MOST_POINTS, Chart
from advisor.drawing import (
    BACKGROUND,
    GOOD,
    LINE,
    MUTED,
    SERIES_1,
    SERIES_2,
    TEXT,
    element,
    fixed,
    label,
    round_ticks,
    svg_document,
    tooltip,
)  # fmt: skip
from advisor.effects import Measured, Spread
from advisor.result import Interval, Value
from advisor.slice_chart import name_of

MOST_AXES = 8
MOST_NAMES = 12  # of values at one axis
WIDTH, HEIGHT = 860, 330
LEFT, RIGHT, TOP, BOTTOM = 46, 64, 56, 306
SPREAD = 18  # of the lines through one value

# What a line says beside its height at the right: colour and dashes, by where the interval lies.
STYLES = {
    "faster": (SERIES_1, "none"),
    "no clear difference": (MUTED, "2 3"),
    "slower": (SERIES_2, "7 4"),
}


def coordinates(
    name: str,
    trials: Sequence[Measured],
    slices: Mapping[str, Sequence[Spread]],
    chosen: Mapping[str, Value] | None,
) -> Chart | None:
    """Parallel coordinates of the trials; above 500 of them bands of the best quarter and of the others.

    Args:
        name: Put before every id in the drawing.
        trials: The measured ones.
        slices: What was measured of each knob; the first eight become axes.
        chosen: The recommended configuration; its lines are drawn thick.
    """
    axes = dict(list(slices.items())[:MOST_AXES])
    if len(axes) < 2 or len(trials) < 2:
        return None
    frame = _Frame(axes, trials)
    many = len(trials) > MOST_POINTS
    drawn = _bands(frame, trials) if many else _lines(frame, trials, chosen)
    said = (
        f"{len(trials)} trials over {len(axes)} settings; at the right is the ratio to the baseline. "
        + _best(trials, axes)
    )
    rows = [
        (wording.shown(knob, 40), name_of(spread), str(len(spread.ratios)), wording.plain(spread.levels[2]))
        for knob, spreads in axes.items()
        for spread in spreads
    ]
    whole = svg_document(
        name, WIDTH, HEIGHT, "Settings of every trial and its ratio to the baseline", said,
        [frame.lines(), *drawn, *frame.names()],
    )  # fmt: skip
    return Chart(whole, ("knob", "value", "trials", "median ratio"), rows)


class _Frame:
    """Where settings and ratios stand."""

    def __init__(self, knobs: Mapping[str, Sequence[Spread]], trials: Sequence[Measured]) -> None:
        estimates = [trial.ratio.estimate for trial in trials]
        ordered = sorted(trials, key=lambda trial: trial.ratio.estimate)
        self.ranks = {trial.number: at for at, trial in enumerate(ordered)}
        self.knobs = knobs
        self.places = {
            knob: {spread.value: at for at, spread in enumerate(spreads)} for knob, spreads in knobs.items()
        }
        self.low, self.high = min([*estimates, 1.0]), max([*estimates, 1.0])

    def x(self, at: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * at / len(self.knobs)

    def y(self, knob: str, value: Value) -> float:
        """Height of a setting, or the middle where a trial did not have the knob."""
        places = self.places[knob]
        share = places[value] / (len(places) - 1) if value in places else 0.5
        return BOTTOM - (BOTTOM - TOP) * share

    def ratio_y(self, ratio: float) -> float:
        span = (self.high - self.low) or 1.0
        return BOTTOM - (BOTTOM - TOP) * (ratio - self.low) / span

    def heights(self, trial: Measured) -> list[float]:
        """On each axis; lines through one value lie beside each other, the best on top."""
        aside = SPREAD * ((self.ranks.get(trial.number, 0) / max(len(self.ranks) - 1, 1)) - 0.5)
        settings = [self.y(knob, trial.config.get(knob, "")) - aside for knob in self.knobs]
        return [*settings, self.ratio_y(trial.ratio.estimate)]

    def lines(self) -> Markup:
        """One upright line for each axis."""
        lines = "".join(f"M{fixed(self.x(at))} {TOP}V{BOTTOM}" for at in range(len(self.knobs) + 1))
        return element("path", d=lines, stroke=LINE, fill="none")

    def names(self) -> list[Markup]:
        """Of axes and of values, with a rim that keeps them readable on lines."""
        parts = []
        room = (WIDTH - LEFT - RIGHT) / len(self.knobs) / 7.4
        for at, (knob, spreads) in enumerate(self.knobs.items()):
            x, anchor = self.x(at), "start" if at == 0 else "middle"
            parts.append(
                label(x if at else 4, 16 + 14 * (at % 2), _cut(knob, 2 * room), anchor=anchor, weight="600")
            )
            every = math.ceil(len(spreads) / MOST_NAMES)
            for spread in spreads[::every]:
                y = self.y(knob, spread.value) + 4
                parts.append(_on_lines(x + 8, y, _cut(name_of(spread), room)))
        parts.append(label(WIDTH - 4, 16, "ratio", anchor="end", weight="600"))
        ticks = [tick for tick in round_ticks(self.low, self.high) if self.low <= tick <= self.high]
        parts += [label(WIDTH - RIGHT + 6, self.ratio_y(tick) + 4, f"{tick:g}x") for tick in ticks]
        return parts


def _lines(frame: _Frame, trials: Sequence[Measured], chosen: Mapping[str, Value] | None) -> list[Markup]:
    """The lowest first, so that the best lie on top."""
    drawn = []
    for trial in sorted(trials, key=lambda trial: trial.ratio.estimate):
        colour, dashes = STYLES[_kind(trial.ratio)]
        best = chosen is not None and dict(trial.config) == dict(chosen)
        tip = tooltip(f"trial {trial.number}: {wording.short_ratio(trial.ratio)}")
        path = "L".join(f"{fixed(frame.x(at))} {fixed(y)}" for at, y in enumerate(frame.heights(trial)))
        drawn.append(
            element(
                "path", tip, d=f"M{path}", stroke=GOOD if best else colour, fill="none",
                stroke_width="3" if best else "1.2", stroke_dasharray="none" if best else dashes,
                stroke_opacity="1" if best else "0.75",
            )
        )  # fmt: skip
    return drawn


def _bands(frame: _Frame, trials: Sequence[Measured]) -> list[Markup]:
    """From the first to the third quartile of the heights: the others, and on top the best quarter."""
    ordered = sorted(trials, key=lambda trial: trial.ratio.estimate)
    cut = len(ordered) - len(ordered) // 4
    parts = []
    for group, colour, opacity in ((ordered[:cut], MUTED, "0.25"), (ordered[cut:], SERIES_1, "0.45")):
        columns = zip(*(frame.heights(trial) for trial in group), strict=True)
        levels = [quantiles(column, n=4, method="inclusive") for column in columns]
        upper = "L".join(f"{fixed(frame.x(at))} {fixed(level[0])}" for at, level in enumerate(levels))
        lower = [f"{fixed(frame.x(at))} {fixed(level[2])}" for at, level in enumerate(levels)]
        path = f"M{upper}L{'L'.join(reversed(lower))}z"
        parts.append(element("path", d=path, fill=colour, stroke=colour, fill_opacity=opacity))
    return parts


def _on_lines(x: float, y: float, text: str) -> Markup:
    return element(
        "text", escape(text), x=x, y=y, font_size="13", fill=TEXT, stroke=BACKGROUND, stroke_width="4",
        stroke_linejoin="round", paint_order="stroke",
    )  # fmt: skip


def _kind(ratio: Interval) -> str:
    if wording.holds_one(ratio):
        return "no clear difference"
    return "faster" if ratio.low > 1 else "slower"


def _best(trials: Sequence[Measured], axes: Mapping[str, Sequence[Spread]]) -> str:
    best = max(trials, key=lambda trial: trial.ratio.low)
    settings = ", ".join(
        f"{wording.shown(knob, 40)}={wording.shown(best.config[knob], 40)}"
        for knob in axes
        if knob in best.config
    )
    return f"The highest lower end has trial {best.number}, {wording.short_ratio(best.ratio)}: {settings}."


def _cut(text: str, room: float) -> str:
    """As much of a name as fits."""
    line, most = wording.shown(text, 60), max(4, int(room))
    return line if len(line) <= most else f"{line[: most - 1]}\N{HORIZONTAL ELLIPSIS}"
