import pytest
from torch import nn

from advisor.tuners.mechanisms.pipeline.stage_work import Work, divided


def works(*modules: nn.Module) -> list[float]:
    work = Work()
    return [work.of(module) for module in modules]


def test_a_linear_layer_works_as_much_as_it_has_weights() -> None:
    assert works(nn.Linear(10, 20, bias=False), nn.Sequential(nn.Linear(4, 4), nn.ReLU())) == [200.0, 20.0]


def test_looking_up_rows_is_no_work() -> None:
    assert works(nn.Embedding(1000, 64)) == [0.0]


def test_convolutions_of_twice_the_channels_and_half_the_size_work_the_same() -> None:
    first, second, third = works(nn.Conv2d(8, 8, 3), nn.Conv2d(16, 16, 3, stride=2), nn.Conv2d(16, 16, 3))
    assert first == second == third


def test_pooling_makes_later_convolutions_cheaper() -> None:
    before, _, after, _, last = works(
        nn.Conv2d(4, 4, 3), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 4, 1)
    )
    assert before == 4 * after
    assert last == 16.0


@pytest.mark.parametrize(
    ("amounts", "count", "begins"),
    [
        ([1, 1, 1, 1], 2, [0, 2]),
        ([1, 1, 1, 1], 4, [0, 1, 2, 3]),
        ([5, 1, 1, 1, 1, 1], 2, [0, 1]),
        ([1, 1, 1, 1, 1, 5], 2, [0, 5]),
        ([0, 3, 3, 0, 3], 3, [0, 2, 4]),
        ([0, 0, 0], 3, [0, 1, 2]),
        ([9, 0, 0, 0], 3, [0, 2, 3]),
    ],
)
def test_the_largest_part_is_as_small_as_can_be(amounts: list[float], count: int, begins: list[int]) -> None:
    assert divided(amounts, count) == begins
