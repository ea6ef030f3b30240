"""The bar of one step, and of the same step after the change, on one scale."""

from collections.abc import Mapping

from markupsafe import Markup

from advisor.report.charts import drawing
from advisor.report.charts.charts import Chart, phase_words
from advisor.result import wording

WIDTH, TOP, HEIGHT, SIDE = 860, 30, 44, 14
BETWEEN = 58  # two bars
LETTER = 7.2  # width of one, for labels that fit


def step_bar(
    name: str,
    now: Mapping[str, float],
    after: Mapping[str, float] | None = None,
    title: str = "One step of the baseline, by part",
) -> Chart:
    """Where the time of one step goes: stacked bars from zero, parts told apart by pattern too.

    Args:
        name: Put before every id in the drawing.
        now: Milliseconds by part.
        after: The same under the recommendation; drawn below on the same scale.
        title: Of a drawing without ``after``.
    """
    bars = [now] if after is None else [now, after]
    longest = max((sum(_present(bar).values()) for bar in bars), default=0.0)
    scale = (WIDTH - 2 * SIDE) / longest if longest > 0 else 0.0
    drawn = [drawing.patterns(name)]
    for number, bar in enumerate(bars):
        drawn += _bar(name, bar, TOP + number * (HEIGHT + BETWEEN), scale)
    for number, (when, bar) in enumerate(
        zip(("before", "after"), bars if after is not None else [], strict=False)
    ):
        text = f"{when}: {wording.plain(sum(_present(bar).values()))} ms"
        drawn.append(drawing.label(SIDE, TOP + number * (HEIGHT + BETWEEN) + HEIGHT + 16, text))
    ticks = [tick for tick in drawing.round_ticks(0, longest) if tick <= longest]
    bottom = TOP + len(bars) * HEIGHT + (len(bars) - 1) * BETWEEN + (0 if after is None else 20)
    drawn += drawing.vertical_axis(
        ticks, lambda value: SIDE + value * scale, bottom, bottom + 6, "ms", WIDTH - SIDE
    )
    if after is not None:
        title = "One step before (above) and after (below), by part"
    drawn_whole = drawing.svg_document(name, WIDTH, bottom + 42, title, f"Stacked bar. {_said(now)}", drawn)
    return Chart(drawn_whole, *_numbers(now, after))


def _bar(name: str, phases_ms: Mapping[str, float], top: float, scale: float) -> list[Markup]:
    parts = _present(phases_ms)
    total = sum(parts.values())
    drawn = []
    at = float(SIDE)
    for phase, ms in parts.items():
        wide = ms * scale
        label = f"{phase_words(phase)} {wording.share_of(ms, total)}"
        drawn.append(
            drawing.element(
                "rect", drawing.tooltip(f"{label}, {wording.plain(ms)} ms"), x=at, y=top,
                width=max(wide - 1, 0.4), height=HEIGHT, fill=drawing.phase_fill(name, phase),
                stroke=drawing.phase_colour(phase),
            )
        )  # fmt: skip
        if wide > LETTER * len(label):
            drawn.append(drawing.label(at, top - 8, label, weight="600"))
        at += wide
    return drawn


def _numbers(
    now: Mapping[str, float], after: Mapping[str, float] | None
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    total = sum(_present(now).values())
    if after is None:
        rows: list[tuple[str, ...]] = [
            (phase_words(phase), wording.plain(ms), wording.share_of(ms, total)) for phase, ms in now.items()
        ]
        return ("part", "ms", "share"), rows
    total_after = sum(_present(after).values())
    rows = [
        (
            phase_words(phase),
            wording.plain(now.get(phase, 0.0)),
            wording.share_of(now.get(phase, 0.0), total),
            wording.plain(after.get(phase, 0.0)),
            wording.share_of(after.get(phase, 0.0), total_after),
        )
        for phase in dict.fromkeys([*now, *after])
    ]
    return ("part", "ms before", "share before", "ms after", "share after"), rows


def _present(phases_ms: Mapping[str, float]) -> dict[str, float]:
    return {phase: ms for phase, ms in phases_ms.items() if ms > 0}


def _said(phases_ms: Mapping[str, float]) -> str:
    parts = _present(phases_ms)
    largest = max(parts, key=lambda phase: parts[phase], default="")
    if not largest:
        return "No parts were seen."
    return f"{wording.share_of(parts[largest], sum(parts.values()))} is {phase_words(largest)}."
