"""The pieces that charts are drawn with: elements, colours by page variables, patterns, ticks."""

import math
from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup, escape

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

REACH = 3.0  # times the outermost estimates; what of an interval lies further away is cut off

# Colour and pattern of each part of a step: orange waits, blue computes, grey is the rest.
PHASES = {
    "input_wait": (SERIES_2, "solid"),
    "transfer": (SERIES_2, "stripes"),
    "forward": (SERIES_1, "solid"),
    "backward": (SERIES_1, "stripes"),
    "optimizer": (SERIES_1, "dots"),
    "communication": (WARN, "stripes"),
    "sync": (BAD, "dots"),
    "logging": (BAD, "stripes"),
    "evaluation": (GOOD, "stripes"),
    "save": (GOOD, "dots"),
    "other": (MUTED, "dots"),
}
SAME = {
    "computing": "forward", "exposed_communication": "communication", "exposed_copies": "transfer",
    "idle_until_data_came": "input_wait", "idle_until_a_launch": "logging",
    "idle_after_a_synchronisation": "sync", "idle_after_the_last_kernel": "optimizer",
}  # fmt: skip
"""Parts of a device's step that look like parts of the host's."""


def svg_document(
    name: str, width: float, height: float, title: str, description: str, parts: Iterable[Markup]
) -> Markup:
    """A whole drawing that scales with its place, with a title and a description for readers."""
    head = [
        element("title", escape(title), id=f"{name}-title"),
        element("desc", escape(description), id=f"{name}-desc"),
    ]
    return element(
        "svg", *head, *parts, viewBox=f"0 0 {fixed(width)} {fixed(height)}", width="100%", role="img",
        aria_labelledby=f"{name}-title {name}-desc", font_family="inherit",
    )  # fmt: skip


def reach(estimates: Sequence[float], ends: Sequence[float]) -> list[float]:
    """Ends of intervals for the scale of an axis: none lies further than ``REACH`` times the estimates.

    A single interval that holds everything would press all others into one line; it is drawn cut off at the
    border, and the table beside the chart says what is known of it.
    """
    if not estimates:
        return list(ends)
    low, high = min(estimates) / REACH, max(estimates) * REACH
    return [min(max(end, low), high) for end in ends]


def vertical_axis(
    ticks: Sequence[float], x: Callable[[float], float], top: float, bottom: float, unit: str, right: float
) -> list[Markup]:
    """Thin lines at the ticks with their figures below, and the unit at the right end."""
    lines = "".join(f"M{fixed(x(tick))} {fixed(top)}V{fixed(bottom)}" for tick in ticks)
    parts = [element("path", d=lines, stroke=LINE, fill="none")]
    parts += [label(x(tick), bottom + 14, f"{tick:g}", anchor="middle", colour=MUTED) for tick in ticks]
    return [*parts, label(right, bottom + 31, unit, anchor="end", colour=MUTED)]


def patterns(name: str) -> Markup:
    """Stripes and dots in every colour that a part uses, under ids of this drawing."""
    patterns = []
    for phase, (colour, kind) in PHASES.items():
        if kind == "solid":
            continue
        mark = (
            element("path", d="M0 8L8 0M-2 2L2 -2M6 10L10 6", stroke=BACKGROUND, stroke_width="2")
            if kind == "stripes"
            else element("circle", cx=4, cy=4, r=1.4, fill=BACKGROUND)
        )
        ground = element("rect", width=8, height=8, fill=colour)
        patterns.append(
            element(
                "pattern",
                ground,
                mark,
                id=f"{name}-{phase}",
                width=8,
                height=8,
                patternUnits="userSpaceOnUse",
            )
        )
    return element("defs", *patterns)


def phase_fill(name: str, phase: str) -> str:
    """What fills a part of a step: its colour, or its pattern in this drawing."""
    known = known_phase(phase)
    return PHASES[known][0] if PHASES[known][1] == "solid" else f"url(#{name}-{known})"


def phase_colour(phase: str) -> str:
    """The colour of a part of a step."""
    return PHASES[known_phase(phase)][0]


def known_phase(phase: str) -> str:
    """The part that a part of this name looks like."""
    same = SAME.get(phase, phase)
    return same if same in PHASES else "other"


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
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


def tooltip(text: str) -> Markup:
    """A text shown when the pointer rests on a shape, and read aloud."""
    return element("title", escape(text))


def label(
    x: float, y: float, text: str, *, anchor: str = "start", colour: str = TEXT, weight: str = "400"
) -> Markup:
    """A line of text at a place."""
    return element(
        "text", escape(text), x=x, y=y, text_anchor=anchor, fill=colour, font_size="13", font_weight=weight
    )


def element(tag: str, *children: Markup, **attributes: float | str) -> Markup:
    """An element whose attributes are quoted and escaped; numbers are written to one decimal."""
    written = "".join(
        f' {key.replace("_", "-")}="{escape(fixed(value))}"' for key, value in attributes.items()
    )
    inside = Markup("").join(children)
    return Markup(f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>")


def fixed(value: float | str) -> str:
    """A number to one decimal; text as it is."""
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
