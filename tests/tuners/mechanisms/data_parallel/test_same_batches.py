import pytest
import torch
from torch import Tensor

from advisor.tuners.mechanisms.data_parallel.same_batches import OwnRandomNumbers, digest

ROWS = torch.arange(12.0).reshape(6, 2)


def test_equal_batches_have_one_digest() -> None:
    one, other = ([rows, {"target": torch.arange(6)}] for rows in (ROWS, ROWS.clone()))
    assert torch.equal(digest(one), digest(other))


@pytest.mark.parametrize(
    "other",
    [ROWS.flip(0), ROWS + torch.eye(6, 2) * 1e-3, -ROWS, torch.zeros(6, 2)],
    ids=["another order", "one value", "another sign", "nothing"],
)
def test_other_batches_have_another(other: Tensor) -> None:
    assert not torch.equal(digest([ROWS]), digest([other]))


def test_values_that_are_no_numbers_compare_equal() -> None:
    batch = [torch.tensor([float("nan"), 1.0]), "text", torch.tensor([True, False])]
    assert torch.equal(digest(batch), digest(batch))


def test_random_numbers_inside_leave_those_outside_in_step() -> None:
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    own = OwnRandomNumbers()
    drawn = [torch.rand(1)]
    with own:
        inside = torch.rand(3)
    drawn.append(torch.rand(1))
    assert torch.equal(torch.cat(drawn), expected)
    with own:
        assert not torch.equal(torch.rand(3), inside)
