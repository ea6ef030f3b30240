import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from advisor.profiles.traces.intervals import union

PAIRS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=12)


def _cells(pairs: list[tuple[int, int]]) -> set[int]:
    return {cell for begin, length in pairs for cell in range(begin, begin + length)}


def _union_of(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    begin = np.array([begin for begin, _ in pairs], dtype=np.float64)
    return begin, begin + np.array([length for _, length in pairs], dtype=np.float64)


@given(PAIRS, PAIRS)
def test_lengths_and_overlaps_are_those_of_sets_of_unit_cells(
    ours: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    whole = union(*_union_of(ours))
    assert whole.length == len(_cells(ours))
    covered = whole.covers(*_union_of(theirs))
    assert covered.tolist() == [len(_cells(ours) & _cells([each])) for each in theirs]
    assert whole.within(10, 20).length == len(_cells(ours) & set(range(10, 20)))


def test_gaps_lie_between_the_first_beginning_and_the_last_end() -> None:
    gaps = union(np.array([0.0, 5.0, 9.0]), np.array([6.0, 7.0, 10.0])).gaps()
    assert (gaps.begin.tolist(), gaps.end.tolist()) == ([7.0], [9.0])


def test_intervals_within_reach_become_one() -> None:
    joined = union(np.array([0.0, 3.0, 9.0]), np.array([1.0, 4.0, 10.0]), reach=2.0)
    assert (joined.begin.tolist(), joined.end.tolist()) == ([0.0, 9.0], [4.0, 10.0])


@given(PAIRS)
def test_the_pieces_of_a_union_are_all_of_it_in_order(pairs: list[tuple[int, int]]) -> None:
    whole = union(*_union_of(pairs))
    pieces = list(whole.pieces(2))
    assert [begin for each in pieces for begin in each.begin.tolist()] == whole.begin.tolist()
    assert sum(each.length for each in pieces) == whole.length
    assert all(0 < len(each.begin) <= 2 for each in pieces)
