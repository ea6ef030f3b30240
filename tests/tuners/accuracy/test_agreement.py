import numpy as np
import pytest
import torch

from advisor.tuners.accuracy.agreement import agreement, relative_rms
from advisor.tuners.accuracy.outputs import Output, flattened
from advisor.tuners.accuracy.shares import at_most


def test_equal_outputs_agree() -> None:
    outputs = [flattened(torch.randn(1, 10)) for _ in range(20)]
    shown = agreement(outputs, outputs)
    assert (shown.relative_rms, shown.largest, shown.flips, shown.divergence) == (0, 0, 0, 0)
    assert shown.flips_at_most == at_most(0, 20)


def test_differences_are_told_relative_to_the_values() -> None:
    own = [flattened(torch.tensor([[3.0, -4.0]])), flattened(torch.tensor([[4.0, 3.0]]))]
    other = [flattened(torch.tensor([[3.5, -4.0]])), flattened(torch.tensor([[3.0, 4.0]]))]
    shown = agreement(own, other)
    assert shown.relative_rms == pytest.approx((2.25 / 50) ** 0.5)
    assert shown.largest == pytest.approx(1 / (50 / 4) ** 0.5)
    assert (shown.flips, shown.flip_share, shown.samples) == (1, 0.5, 2)


def test_a_cosine_near_one_does_not_hide_changed_decisions() -> None:
    generator = torch.Generator().manual_seed(0)
    own = torch.randn(500, 10, generator=generator) * 0.1
    other = own + torch.randn(500, 10, generator=generator) * 0.014
    assert torch.cosine_similarity(own.flatten(), other.flatten(), dim=0) > 0.98
    shown = agreement(_each(own), _each(other))
    assert shown.flip_share is not None and shown.flip_share > 0.05


def test_the_leaf_that_is_furthest_counts() -> None:
    own = flattened({"near": np.ones(4), "far": np.ones(4) * 1e-3})
    other = flattened({"near": np.ones(4), "far": np.ones(4) * 2e-3})
    assert relative_rms([own], [other]) == pytest.approx(1.0)


def test_what_is_not_finite_is_infinitely_far() -> None:
    assert relative_rms([flattened(np.ones(2))], [flattened(np.array([1.0, np.nan]))]) == float("inf")


def test_samples_may_be_answered_in_different_forms() -> None:
    scores, more = torch.tensor([[3.0, -4.0]]), (torch.tensor([[1.0, 2.0]]), torch.tensor([5.0, 6.0, 7.0]))
    own = [flattened(scores), flattened(more), flattened([])]
    other = [flattened(scores), flattened((more[0].flip(1), more[1] + 1)), flattened([])]
    shown = agreement(own, other)
    assert (shown.samples, shown.flips, shown.flip_share) == (3, 1, 0.5)
    assert shown.relative_rms == relative_rms(own, other) > 0


def test_quantities_decide_nothing() -> None:
    shown = agreement([flattened(torch.ones(1))], [flattened(torch.ones(1) * 1.1)])
    assert shown.flips is None and shown.relative_rms == pytest.approx(0.1, rel=1e-4)


def test_without_a_sample_nothing_is_compared() -> None:
    with pytest.raises(ValueError, match="without a sample"):
        agreement([], [])


def _each(rows: torch.Tensor) -> list[Output]:
    return [flattened(row[None]) for row in rows]


def test_labels_that_differ_are_counted_by_the_sample() -> None:
    own = [flattened({"label": number, "score": 0.5}) for number in range(4)]
    shown = agreement(own, [flattened({"label": 0, "score": 0.5})] * 4)
    assert (shown.other_values, shown.relative_rms) == (3, 0)
