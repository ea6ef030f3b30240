import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from advisor.profiles.traces import equal_rows as module
from advisor.profiles.traces.equal_rows import alike

TABLES = st.tuples(st.integers(1, 40), st.integers(1, 4)).flatmap(
    lambda shape: st.sampled_from([3, 40, 2**31 - 1]).flatmap(
        lambda most: arrays.arrays(np.int64, shape, elements=st.integers(-1, most))
    )
)


@given(TABLES, st.sampled_from([1, 5, 1 << 16]))
def test_groups_are_those_that_sorting_finds(table: np.ndarray, room: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROOM", room)
        found = alike(*table.T)
    _, first, group, count = np.unique(
        table, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    assert found.first.tolist() == first.tolist()
    assert found.group.tolist() == group.reshape(-1).tolist()
    assert found.count.tolist() == count.tolist()


def test_no_rows_are_no_groups() -> None:
    found = alike(np.zeros(0, np.int32), np.zeros(0, np.int32))
    assert [len(each) for each in (found.first, found.group, found.count)] == [0, 0, 0]
