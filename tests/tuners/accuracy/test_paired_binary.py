import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from advisor.tuners.accuracy.paired_binary import (
    Changed,
    loss_at_least,
    loss_at_most,
    probability,
    samples_for_no_change,
)


@settings(max_examples=25, deadline=None)
@given(lost=st.integers(0, 60), gained=st.integers(0, 60), more=st.integers(0, 3000))
def test_bounds_lie_on_either_side_of_the_loss(lost: int, gained: int, more: int) -> None:
    changed = Changed(lost, gained, lost + gained + more + 1)
    assert -1 <= loss_at_least(changed) <= changed.loss <= loss_at_most(changed) <= 1


@pytest.mark.parametrize(("count", "share", "margin"), [(300, 0.05, 0.03), (1000, 0.0101, 0.01)])
def test_a_loss_at_the_margin_is_accepted_in_one_of_a_hundred_at_most(
    count: int, share: float, margin: float
) -> None:
    """Exactly: the probability of every result that would be accepted is added up."""
    accepted = 0.0
    low, high = (int(edge) for edge in binom.ppf([1e-8, 1 - 1e-8], count, share))
    for differing in range(low, high + 1):
        lost = _most_accepted(count, differing, margin)
        accepted += binom.pmf(differing, count, share) * binom.cdf(
            lost, differing, (share + margin) / (2 * share)
        )
    assert 0.001 < accepted <= 0.01


def test_samples_of_which_none_differs_bound_the_loss() -> None:
    count = samples_for_no_change(0.01)
    assert 459 <= count < 500
    assert loss_at_most(Changed(0, 0, count - 10)) > 0.01 >= loss_at_most(Changed(0, 0, count)) - 1e-5


def test_more_samples_narrow_the_interval() -> None:
    widths = [loss_at_most(Changed(2 * n, 2 * n, 400 * n)) for n in (1, 4, 16)]
    assert widths[0] > 1.3 * widths[1] > 1.3**2 * widths[2]


def test_large_numbers_come_near_the_normal_distribution() -> None:
    bound = loss_at_most(Changed(250, 250, 50_000))
    assert bound == pytest.approx(2.326 * 500**0.5 / 50_000, rel=0.1)


def _most_accepted(count: int, differing: int, margin: float) -> int:
    low, high = -1, differing
    while low < high:
        middle = (low + high + 1) // 2
        if probability(Changed(middle, differing - middle, count), margin) <= 0.01:
            low = middle
        else:
            high = middle - 1
    return low
