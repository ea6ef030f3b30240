"""Whether a dataset passes its items through a function of its own."""

import pytest
from torch.utils.data import Dataset, Subset

from advisor.profiles.hooks.loading.loader_record import is_transformed


class Images(Dataset[int]):
    def __init__(self, **attributes: object) -> None:
        vars(self).update(attributes)


@pytest.mark.parametrize(
    ("attributes", "transformed"),
    [({}, False), ({"transform": None}, False), ({"transform": abs}, True), ({"transforms": abs}, True)],
)
def test_a_dataset_that_transforms_its_items_is_told(
    attributes: dict[str, object], transformed: bool
) -> None:
    images = Images(**attributes)
    assert is_transformed(images) is transformed
    assert is_transformed(Subset(images, [0])) is transformed
    assert not is_transformed([1, 2])


def test_datasets_that_hold_each_other_are_left() -> None:
    one, other = Images(), Images()
    vars(one)["dataset"], vars(other)["dataset"] = other, one
    assert not is_transformed(one)
