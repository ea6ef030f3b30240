"""The losses of one run beside those of the baseline: for changes under which what is learnt can differ."""

from collections.abc import Sequence

from advisor.report.charts.charts import Chart
from advisor.report.charts.drawing import MUTED, SERIES_1, SERIES_2, element, label, svg_document
from advisor.report.charts.plane import HEIGHT, LEFT, TOP, WIDTH, Plane
from advisor.result import wording

NOT_FINITE = "not finite"

Curve = Sequence[tuple[int, float | None]]
"""Losses by step."""


def curve_of(losses: Sequence[float | None], steps: int) -> Curve:
    """Losses of a result, each with its step.

    Args:
        losses: At most fifty of them, evenly apart.
        steps: How many there were in all.
    """
    return list(zip(steps_of(len(losses), steps), losses, strict=True))


def losses_beside(name: str, title: str, baseline: Curve, own: Curve) -> Chart:
    """Two lines, the baseline's dashed, on the steps that each of them has.

    Args:
        name: Prefix of the ids in the drawing.
        title: Which strategy it is.
        baseline: May be empty.
        own: Of the trial.
    """
    values = [loss for _, loss in [*baseline, *own] if loss is not None]
    last = max((step for step, _ in [*baseline, *own]), default=1)
    plane = Plane.over(1, last, values)
    parts = plane.axes([(1, "1"), (last, str(last))], "step", "loss")
    parts += [plane.line(baseline, SERIES_2, dashed=True)] if baseline else []
    parts.append(plane.line(own, SERIES_1))
    at = float(LEFT)
    for text, colour, dashes in ((title, SERIES_1, "none"), ("baseline", SERIES_2, "6 4")):
        if colour == SERIES_1 or baseline:
            shape = {"d": f"M{at:.0f} 9h24", "stroke": colour, "stroke_dasharray": dashes}
            parts.append(element("path", **shape, stroke_width="2", fill="none"))
            parts.append(label(at + 30, TOP - 13, text.partition(",")[0][:16], colour=MUTED))
        at += 145
    drawn = svg_document(name, WIDTH, HEIGHT, f"Loss by step: {title}", said(title, baseline, own), parts)
    by_step = {step: loss for step, loss in baseline}
    mine = {step: loss for step, loss in own}
    rows = [
        (str(step), *(_cell(curve, step) for curve in ((by_step, mine) if baseline else (mine,))))
        for step in sorted({**by_step, **mine})
    ]
    columns = ("step", "baseline", title) if baseline else ("step", title)
    return Chart(drawn, columns, rows)


def steps_of(points: int, steps: int) -> list[int]:
    """The steps, from 1, that the losses of so many points belong to."""
    last = max(points, steps) - 1
    return [round(at * last / (points - 1)) + 1 for at in range(points)] if points > 1 else [1] * points


def said(title: str, baseline: Curve, own: Curve) -> str:
    """``local_sgd: 2.31 to 1.93 in 64 steps; baseline: 2.31 to 1.87 in 20 steps.``."""
    told = [_run(title, own)] + ([_run("baseline", baseline)] if baseline else [])
    end = "." if baseline else "; the baseline's losses were not kept."
    return "; ".join(told) + end


def _run(name: str, curve: Curve) -> str:
    if not curve:
        return f"{name}: no losses were seen"
    return f"{name}: {_value(curve[0][1])} to {_value(curve[-1][1])} in {curve[-1][0]} steps"


def _value(loss: float | None) -> str:
    return NOT_FINITE if loss is None else wording.plain(loss)


def _cell(curve: dict[int, float | None], step: int) -> str:
    return _value(curve[step]) if step in curve else ""
