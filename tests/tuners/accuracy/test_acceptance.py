from collections.abc import Sequence

import numpy as np
import pytest

from advisor.tuners.accuracy.acceptance import Acceptance, Scores, accept
from advisor.tuners.accuracy.agreement import agreement
from advisor.tuners.accuracy.outputs import Array, Output, flattened
from advisor.tuners.knob import Semantics

GENERATOR = np.random.default_rng(7)
PRECISION = Semantics.PRECISION


def test_what_loses_two_points_is_refused_with_its_interval() -> None:
    said = _scored(2000, lost=0.03, gained=0.01)
    assert (said.verdict, said.by) == ("refused", "metric")
    assert said.loss is not None and said.loss.low > 0 and "99 % one-sided" in said.reason


def test_what_loses_a_fifth_of_a_point_is_accepted_where_samples_suffice() -> None:
    assert _scored(5000, lost=0.006, gained=0.004).verdict == "accepted"


def test_where_they_do_not_the_number_that_would_do_is_told() -> None:
    said = _scored(500, lost=0.006, gained=0.004)
    assert said.verdict == "not_decidable" and said.samples_needed is not None
    assert 500 < said.samples_needed < 5000 and f"{said.samples_needed:,} samples" in said.reason


def test_a_wider_tolerance_needs_fewer_samples() -> None:
    assert _scored(500, lost=0.006, gained=0.004, max_loss=0.03).verdict == "accepted"


def test_few_samples_never_pass_even_where_nothing_changes() -> None:
    assert _scored(100, lost=0, gained=0).verdict == "not_decidable"
    own = _logits(50)
    assert accept(own, own, PRECISION).verdict == "not_decidable"


@pytest.mark.parametrize(("runs", "most"), [(12, 1), pytest.param(100, 4, marks=pytest.mark.long)])
def test_a_loss_of_one_point_is_accepted_in_one_of_a_hundred_at_most(runs: int, most: int) -> None:
    """With exactly the tolerated loss: five or more of 100 have a chance of 0.3 %, two of 12 of 0.6 %."""
    accepted = 0
    for _ in range(runs):
        right = GENERATOR.random(800) < 0.9
        moved = GENERATOR.random(800)
        other = np.where(right, moved >= 0.02, moved < 0.09)  # loses 1.8 %, gains 0.9 % of all
        accepted += _judged(right, other).verdict == "accepted"
    assert accepted <= most


@pytest.mark.parametrize(("apart", "verdict"), [(1e-5, "accepted"), (1e-3, "refused")])
def test_roundings_keep_a_fixed_bound_whatever_the_metric_says(apart: float, verdict: str) -> None:
    own = _logits(30)
    scores = Scores([1.0] * 30, [1.0] * 30)
    said = accept(own, _moved(own, apart), Semantics.ROUNDING, scores=scores)
    assert (said.verdict, said.by) == (verdict, "agreement")


def test_a_baseline_that_does_not_repeat_itself_widens_the_bound() -> None:
    own = _logits(30)
    said = accept(own, _moved(own, 1e-3), Semantics.ROUNDING, own=agreement(own, _moved(own, 1e-3)))
    assert said.verdict == "accepted" and said.own is not None


def test_tokens_that_differ_from_themselves_in_the_few_samples_that_came_twice_may_do_so_in_all() -> None:
    own = [flattened({"tokens": np.array([number])}) for number in range(1000)]
    other = [flattened({"tokens": np.array([-1])}) for _ in range(25)]
    few = agreement(own[:64], other[:1] + own[1:64])
    assert accept(own, other + own[25:], Semantics.ROUNDING, own=few).verdict == "accepted"
    assert accept(own, other + own[25:], Semantics.ROUNDING).verdict == "refused"


@pytest.mark.parametrize(
    ("semantics", "changed", "verdict"),
    [
        (Semantics.EXACT, 0, "accepted"),
        (Semantics.EXACT, 1, "refused"),
        (Semantics.ROUNDING, 1, "accepted"),
        (Semantics.ROUNDING, 3, "not_decidable"),
        (Semantics.ROUNDING, 60, "refused"),
    ],
)
def test_labels_and_tokens_are_compared_where_only_roundings_may_differ(
    semantics: Semantics, changed: int, verdict: str
) -> None:
    own = [flattened({"tokens": np.array([[3, 5, number]]), "text": "so"}) for number in range(100)]
    other = [flattened({"tokens": np.array([[3, 6, number]]), "text": "so"}) for number in range(changed)]
    assert accept(own, other + own[changed:], semantics).verdict == verdict


def test_a_nan_is_refused_before_anything_else() -> None:
    own = _logits(3)
    broken = [*own[:2], flattened(np.full((1, 5), np.nan))]
    said = accept(own, broken, PRECISION, scores=Scores([1.0] * 3, [1.0] * 3))
    assert (said.verdict, said.by) == ("refused", "validity")


def test_a_kernel_that_saturates_is_refused_though_no_decision_changes() -> None:
    own = _logits(600, clear=True)
    said = accept(own, _moved(own, 0.1), PRECISION, reference=_moved(own[:50], 0.01))
    assert (said.verdict, said.by) == ("refused", "kernel") and "7 bits" in said.reason
    assert accept(own, _moved(own, 0.01), PRECISION, reference=_moved(own[:50], 0.01)).verdict == "accepted"


@pytest.mark.parametrize(
    ("changed", "verdict"), [(0, "accepted"), (1, "accepted"), (6, "not_decidable"), (60, "refused")]
)
def test_without_labels_decisions_that_change_are_bounded(changed: int, verdict: str) -> None:
    own = _logits(800, clear=True)
    other = [flattened(-output[""].values) for output in own[:changed]] + own[changed:]
    said = accept(own, other, PRECISION)
    assert (said.verdict, said.by) == (verdict, "agreement")
    assert (said.samples_needed or 800) >= 800


def test_one_score_of_the_whole_set_cannot_make_up_for_changed_decisions() -> None:
    own = _logits(800, clear=True)
    other = [flattened(-output[""].values) for output in own[:60]] + own[60:]
    assert accept(own, other, PRECISION, scores=Scores([0.9], [0.9], per_sample=False)).by == "agreement"
    for worse in (0.85, float("nan")):
        said = accept(own, own, PRECISION, scores=Scores([0.9], [worse], per_sample=False))
        assert (said.verdict, said.by) == ("refused", "metric")


def test_quantities_need_a_metric() -> None:
    own = [flattened(np.array([value])) for value in GENERATOR.normal(size=900)]
    said = accept(own, own, PRECISION)
    assert said.verdict == "not_decidable" and "metric=" in said.reason


def test_a_tolerance_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="above 0"):
        accept(_logits(1), _logits(1), PRECISION, max_loss=0)


def _scored(count: int, lost: float, gained: float, max_loss: float = 0.01) -> Acceptance:
    right = np.arange(count) < 0.9 * count
    other = right.copy()
    other[: round(lost * count)] = False
    other[count - round(gained * count) :] = True
    return _judged(right, other, max_loss)


def _judged(right: Array, other: Array, max_loss: float = 0.01) -> Acceptance:
    scores = Scores(right.astype(float).tolist(), other.astype(float).tolist())
    same = _logits(1)
    return accept(same, same, PRECISION, scores=scores, max_loss=max_loss)


def _logits(count: int, clear: bool = False) -> list[Output]:
    values = GENERATOR.normal(size=(count, 1, 5))
    if clear:
        values[:, :, 2] = 8
    return [flattened(row) for row in values]


def _moved(outputs: Sequence[Output], share: float) -> list[Output]:
    moved = []
    for output in outputs:
        values = output[""].values
        size = share * np.sqrt(np.mean(values**2))
        moved.append(flattened(values + GENERATOR.normal(size=values.shape) * size))
    return moved
