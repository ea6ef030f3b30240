from typing import Any

import pytest
import torch
from torch import Tensor, nn

from advisor.workloads.inputs import arguments_needed, inputs_of, target_of


class Pair(nn.Module):
    """Takes two inputs, and a third that may be left out."""

    def forward(self, left: Tensor, right: Tensor, scale: float = 1.0) -> Tensor:
        """Their sum."""
        return (left + right) * scale


class Several(nn.Module):
    """Takes whatever comes."""

    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        """The first."""
        return inputs[0]


@pytest.mark.parametrize(
    ("batch", "needed", "inputs", "target"),
    [
        (("x", "y"), 1, ("x",), "y"),
        (["x", "y"], 1, ("x",), "y"),
        ("x", 1, ("x",), None),
        (("x", "y"), 2, ("x", "y"), None),
        (("x", "y", "z"), 2, ("x", "y"), "z"),
        ((("x", "y"), "z"), 2, ("x", "y"), "z"),
        ((["x", "y", "z"], "t"), 3, ("x", "y", "z"), "t"),
        (("x", "y", "z"), 1, (("x", "y", "z"),), None),
    ],
)
def test_what_a_model_is_given_and_what_it_is_to_answer(
    batch: Any, needed: int, inputs: tuple[Any, ...], target: Any
) -> None:
    assert inputs_of(batch, needed) == (inputs, {})
    assert target_of(batch, needed) == target


def test_labels_of_a_mapping_are_no_input() -> None:
    assert (
        inputs_of({"ids": 1, "labels": 2}, 2) == ((), {"ids": 1}) and target_of({"ids": 1, "labels": 2}) == 2
    )


@pytest.mark.parametrize(
    ("model", "needed"), [(nn.Linear(1, 1), 1), (Pair(), 2), (Several(), 1), (torch.jit.script(nn.ReLU()), 1)]
)
def test_arguments_without_a_default_are_needed(model: nn.Module, needed: int) -> None:
    assert arguments_needed(model) == needed
