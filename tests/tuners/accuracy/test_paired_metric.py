import numpy as np
import pytest

from advisor.tuners.accuracy.outputs import Array
from advisor.tuners.accuracy.paired_metric import NoRelativeLoss, paired_loss

GENERATOR = np.random.default_rng(20)


def test_shares_of_right_answers_are_compared_exactly() -> None:
    own, other = _answers(2000, right=0.9, lost=40, gained=0)
    loss = paired_loss(own, other)
    assert loss.binary and loss.baseline == pytest.approx(0.9)
    assert loss.loss == pytest.approx(0.02 / 0.9)
    assert 0.01 < loss.low < loss.loss < loss.high < 0.04


def test_an_error_is_better_lower() -> None:
    own = GENERATOR.gamma(2.0, 1.0, 1000)
    worse, better = own * 1.03, own * 0.97
    assert paired_loss(own, worse, higher_is_better=False).loss == pytest.approx(0.03)
    assert paired_loss(own, better, higher_is_better=False).loss == pytest.approx(-0.03)


def test_equal_scores_of_few_samples_do_not_exclude_an_unseen_loss() -> None:
    few, many = np.linspace(0.2, 0.9, 100), np.linspace(0.2, 0.9, 500)
    assert paired_loss(few, few).high > 0.04
    assert paired_loss(many, many).high < 0.01


def test_the_number_of_samples_that_would_do_does() -> None:
    scores = np.full(300, 0.5)
    needed = paired_loss(scores, scores).samples_needed(0.01)
    assert needed < 500
    assert paired_loss([0.5] * needed, [0.5] * needed).high <= 0.01
    ones = paired_loss([1.0] * 300, [1.0] * 300).samples_needed(0.01)
    assert ones < 500 and paired_loss([1.0] * ones, [1.0] * ones).high <= 0.01


@pytest.mark.parametrize(("runs", "most"), [(12, 1), pytest.param(100, 4, marks=pytest.mark.long)])
def test_skewed_losses_at_the_margin_are_seldom_accepted(runs: int, most: int) -> None:
    """One sample in twenty loses much. At an error of 1 %, five of 100 have a chance of 0.3 %."""
    accepted = 0
    for run in range(runs):
        own = GENERATOR.uniform(0.5, 1.5, 500)
        other = own - (GENERATOR.random(500) < 0.05) * GENERATOR.exponential(0.2 * own)
        accepted += paired_loss(own, other, seed=run).high <= 0.01
    assert accepted <= most


def test_a_mean_of_zero_has_no_relative_loss() -> None:
    with pytest.raises(NoRelativeLoss):
        paired_loss([0.0, 0.0], [0.0, 0.0])


@pytest.mark.parametrize("scores", [([], []), ([1.0], [1.0, 2.0]), ([1.0], [float("nan")])])
def test_scores_that_cannot_be_compared_are_an_error(scores: tuple[list[float], list[float]]) -> None:
    with pytest.raises(ValueError, match="score"):
        paired_loss(*scores)


def _answers(count: int, right: float, lost: int, gained: int) -> tuple[Array, Array]:
    own = np.zeros(count)
    own[: round(right * count)] = 1
    other = own.copy()
    other[:lost] = 0
    other[count - gained :] = 1
    return own, other
