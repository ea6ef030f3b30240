"""A small plane for points and lines: values upwards, with round ticks, and named places to the right."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from advisor.report.charts import drawing
from advisor.report.charts.drawing import LINE, MUTED, element, fixed, label

WIDTH, HEIGHT = 350, 226
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 26, 172
INSET = 14  # of the first and the last place
NARROWEST = 34  # between names of places


@dataclass(frozen=True)
class Plane:
    """Where values stand; ``low`` and ``high`` are round and hold all of them.

    Attributes:
        first: Place at the left end.
        last: Place at the right end.
    """

    first: float
    last: float
    low: float
    high: float

    @classmethod
    def over(cls, first: float, last: float, values: Sequence[float]) -> "Plane":
        """A plane that holds ``values``."""
        low, high = min(values, default=0.0), max(values, default=1.0)
        ticks = drawing.round_ticks(low, high if high > low else low + (abs(low) or 1.0), 4)
        return cls(first, last, ticks[0], ticks[-1])

    def x(self, place: float) -> float:
        """Of a place."""
        if self.last <= self.first:
            return (LEFT + WIDTH - RIGHT) / 2
        return (
            LEFT
            + INSET
            + (WIDTH - LEFT - RIGHT - 2 * INSET) * (place - self.first) / (self.last - self.first)
        )

    def y(self, value: float) -> float:
        """Of a value; one beyond the plane stands at its border."""
        value = min(max(value, self.low), self.high)
        return BOTTOM - (BOTTOM - TOP) * (value - self.low) / (self.high - self.low)

    def axes(
        self,
        places: Sequence[tuple[float, str]],
        across: str,
        upwards: str,
        written: Callable[[float], str] = "{:.10g}".format,
    ) -> list[Markup]:
        """Thin lines at round values with their figures, the names of places, and what both are.

        Args:
            places: Where a name stands, from left to right; names that do not fit are left out.
            across: What the places are.
            upwards: What the values are, with their unit.
            written: How a value is written, if the plane holds another scale.
        """
        ticks = [
            tick for tick in drawing.round_ticks(self.low, self.high, 4) if self.low <= tick <= self.high
        ]
        grid = "".join(f"M{LEFT} {fixed(self.y(tick))}H{WIDTH - RIGHT}" for tick in ticks)
        parts = [element("path", d=grid, stroke=LINE, fill="none")]
        parts += [
            label(LEFT - 6, self.y(tick) + 4, written(tick), anchor="end", colour=MUTED) for tick in ticks
        ]
        taken = float("-inf")
        for place, name in places:
            if self.x(place) - taken >= NARROWEST:
                taken = self.x(place)
                parts.append(label(taken, BOTTOM + 18, name, anchor="middle", colour=MUTED))
        parts.append(label(WIDTH - RIGHT, BOTTOM + 42, across, anchor="end", colour=MUTED))
        return [*parts, label(4, 12, upwards, colour=MUTED)]

    def line(
        self,
        points: Sequence[tuple[float, float | None]],
        colour: str,
        *,
        dashed: bool = False,
    ) -> Markup:
        """A line through points, interrupted where a value is missing; a lone point is a dot."""
        path, run = "", 0
        for place, value in [*points, (0.0, None)]:
            if value is None:
                path += "h0" if run == 1 else ""
                run = 0
            else:
                path += f"{'L' if run else 'M'}{fixed(self.x(place))} {fixed(self.y(value))}"
                run += 1
        return element(
            "path", d=path, stroke=colour, stroke_width="2", stroke_linecap="round",
            stroke_dasharray="6 4" if dashed else "none", fill="none",
        )  # fmt: skip

    def whisker(self, place: float, low: float, high: float, colour: str) -> Markup:
        """A vertical line from ``low`` to ``high`` with bars at its ends."""
        x, top, bottom = self.x(place), fixed(self.y(high)), fixed(self.y(low))
        ends = f"M{fixed(x - 5)} {top}h10M{fixed(x - 5)} {bottom}h10"
        return element(
            "path", d=f"M{fixed(x)} {top}V{bottom}{ends}", stroke=colour, stroke_width="2", fill="none"
        )
