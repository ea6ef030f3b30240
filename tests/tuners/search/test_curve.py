"""Values of a number follow the curve that is measured."""

from collections.abc import Callable

import pytest

from advisor.tuners.knob import Value
from advisor.tuners.search.curve import Curve


def looked_at(
    values: list[Value], speed: Callable[[Value], float], waits: Callable[[Value], float] | None = None
) -> list[Value]:
    """What a search looks at that knows the true speed of each value, over the present one."""
    curve, best, seen = Curve(values), 1.0, []
    while (value := curve.next()) is not None:
        seen.append(value)
        better = speed(value) > best
        best = max(best, speed(value))
        curve.told(value, better=better, waits=None if waits is None else waits(value))
    return seen


def test_a_winner_that_still_waits_is_followed_by_larger_ones_up_to_the_last() -> None:
    assert looked_at([4, 2, 1, 8, 16], float, lambda value: 0.9) == [4, 8, 16]


def test_no_other_value_is_looked_at_once_nothing_waits() -> None:
    waits = {4: 0.5, 8: 0.02}
    assert looked_at([4, 2, 1, 8, 16], float, lambda value: waits[int(value)]) == [4, 8]


def test_where_larger_ones_give_nothing_the_smaller_neighbour_is_looked_at() -> None:
    speed = {1: 1.2, 2: 2.1, 4: 2.0, 8: 1.5}
    assert looked_at([4, 1, 2, 8], lambda value: speed[int(value)], lambda value: 0.5) == [4, 8, 2]


def test_without_a_known_wait_two_numbers_in_a_row_past_the_peak_end_it() -> None:
    speed = {2: 1.5, 4: 1.4, 8: 1.3, 16: 1.2}
    assert looked_at([2, 4, 8, 16], lambda value: speed[int(value)]) == [2, 4, 8]


def test_losses_before_the_first_gain_end_nothing() -> None:
    speed = {1: 0.9, 2: 0.8, 4: 0.9, 8: 1.5}
    assert looked_at([1, 2, 4, 8], lambda value: speed[int(value)]) == [1, 2, 4, 8]


@pytest.mark.parametrize("waits", [None, 0.0])
def test_values_that_are_no_numbers_are_all_looked_at(waits: float | None) -> None:
    known = None if waits is None else lambda value: 0.0
    assert looked_at(["a", "b", "c"], lambda value: 2.0 if value == "a" else 1.0, known) == ["a", "b", "c"]
