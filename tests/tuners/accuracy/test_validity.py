from typing import Any

import numpy as np
import pytest
import torch

from advisor.tuners.accuracy.outputs import flattened
from advisor.tuners.accuracy.validity import invalid

NAN, INF = float("nan"), float("inf")

DIFFERS = {
    "not finite": (torch.tensor([1.0, 2.0]), torch.tensor([1.0, NAN]), "not finite where"),
    "another infinity": (torch.tensor([1.0, -INF]), torch.tensor([1.0, INF]), "other infinities"),
    "finite after all": (torch.tensor([1.0, -INF]), torch.tensor([1.0, -1e9]), "is finite where"),
    "another shape": (torch.zeros(1, 3), torch.zeros(3), "has shape (3,), and (1, 3)"),
    "another dtype": (torch.zeros(3), torch.zeros(3).bfloat16(), "is bfloat16, and float32"),
    "a missing leaf": ({"a": 1, "b": 2}, {"a": 1}, "lacks 'b'"),
    "another leaf": ({"a": 1}, {"b": 1}, "lacks 'a' and adds 'b'"),
    "another kind": ((None,), ("text",), "is str, and NoneType"),
}


@pytest.mark.parametrize(("own", "other", "told"), DIFFERS.values(), ids=DIFFERS)
def test_an_output_that_cannot_stand_for_the_original_is_named(own: Any, other: Any, told: str) -> None:
    reason = invalid([flattened(0.5), flattened(own)], [flattened(0.5), flattened(other)])
    assert reason is not None and told in reason and reason.startswith("sample 2: ")


def test_other_values_are_valid_and_infinities_of_a_mask_too() -> None:
    own, other = torch.tensor([1.0, -INF, NAN]), torch.tensor([1.1, -INF, NAN])
    assert invalid([flattened(own)], [flattened(other)]) is None


def test_other_whole_numbers_are_valid() -> None:
    assert invalid([flattened(np.array([1, 2]))], [flattened(np.array([1, 3]))]) is None


def test_a_missing_output_is_named() -> None:
    assert invalid([flattened(1.0)] * 3, [flattened(1.0)] * 2) == "it gave 2 outputs for 3 samples"
