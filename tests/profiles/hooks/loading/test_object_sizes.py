import array
import sys

import pytest

from advisor.profiles.hooks.loading.object_sizes import LONG, objects_bytes


def test_rows_of_a_long_list_are_counted_with_what_they_hold() -> None:
    rows = [{"words": [number + 1000, number + 2000]} for number in range(2 * LONG)]
    row = rows[0]
    one = sys.getsizeof(row) + sys.getsizeof("words") + sys.getsizeof(row["words"]) + 2 * sys.getsizeof(1000)
    assert objects_bytes(rows) == pytest.approx(2 * LONG * one, rel=0.05)
    assert objects_bytes(dict(enumerate(rows))) >= objects_bytes(rows)


@pytest.mark.parametrize(
    "thing", [[[0]] * 5, [None] * LONG, [7] * LONG, array.array("d", [0.5] * LONG), "x" * LONG]
)
def test_short_lists_arrays_and_what_python_shares_are_nothing(thing: object) -> None:
    assert objects_bytes(thing) == 0
