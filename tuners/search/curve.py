"""Which value of one knob is looked at next: numbers follow the curve that is measured."""

from collections.abc import Sequence

from advisor.tuners.knob import Value

PAST_THE_PEAK = 2  # numbers in a row that give no more than the best so far
STILL_WAITS = 0.05  # share of a step that waits for data, from which more of the cure may help


class Curve:
    """Hands out the values of a knob one by one, and hears what came of each."""

    def __init__(self, values: Sequence[Value]) -> None:
        self._left = list(values)
        self._found = False
        self._worse_in_a_row = 0

    def next(self) -> Value | None:
        """What to look at now; ``None`` at the end."""
        return self._left.pop(0) if self._left else None

    def told(self, value: Value, *, better: bool, waits: float | None = None) -> None:
        """What came of a value.

        A better number that leaves the step waiting is followed by larger ones, and by its smaller neighbour
        should these give nothing; one that leaves no wait ends the curve: no other can give more.

        Args:
            value: That was measured.
            better: Better than all before.
            waits: Share (0 to 1) of its step that still waits for what the knob provides; ``None`` where
                that is not known, or not what the knob is for.
        """
        self._worse_in_a_row = 0 if better else self._worse_in_a_row + 1
        self._found = self._found or better
        if not isinstance(value, int):
            return
        if better and waits is not None:
            numbers = [each for each in self._left if isinstance(each, int)]
            larger = sorted(each for each in numbers if each > value)
            below = sorted(each for each in numbers if each < value)
            self._left = [*larger, *below[-1:]] if larger and waits >= STILL_WAITS else []
        elif self._found and self._worse_in_a_row == PAST_THE_PEAK:
            self._left = []
