import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from advisor.tuners.accuracy.shares import at_least, at_most, samples_for_margin, samples_for_none


@given(count=st.integers(1, 3000), part=st.floats(0, 1))
def test_a_share_at_the_upper_bound_would_rarely_show_so_few(count: int, part: float) -> None:
    seen = int(part * count)
    bound = at_most(seen, count)
    assert seen / count <= bound <= 1
    if bound < 1:
        assert binom.cdf(seen, count, bound) == pytest.approx(0.01, rel=1e-6)


@given(count=st.integers(1, 3000), part=st.floats(0, 1))
def test_bounds_lie_on_either_side(count: int, part: float) -> None:
    seen = int(part * count)
    assert 0 <= at_least(seen, count) <= seen / count <= at_most(seen, count)


def test_samples_that_would_do() -> None:
    assert [samples_for_margin(*case) for case in ((0.02, 0.01), (0.05, 0.01), (0.01, 0.001))] == [
        1082, 2705, 54101,
    ]  # fmt: skip
    assert samples_for_none(0.01) == 459
    assert at_most(0, 459) <= 0.01 < at_most(0, 458)
