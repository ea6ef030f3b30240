import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from advisor.tuners.mechanisms.tensor.linear_groups import LinearGroup, linear_groups


class Parts(nn.Module):
    """Three layers, put together by each subclass in its own way."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.gate = nn.Linear(4, 8)
        self.second = nn.Linear(8, 4)
        self.act = nn.GELU()
        self.drop = nn.Dropout(0.1)
        self.norm = nn.LayerNorm(8)
        self.shift = nn.Parameter(torch.zeros(8))


class Mlp(Parts):
    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.second(self.drop(self.act(self.first(inputs))))
        return output


class Gated(Parts):
    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.second(functional.silu(self.gate(inputs)) * self.first(inputs))
        return output


class Formula(Parts):
    def forward(self, inputs: Tensor) -> Tensor:
        x = self.first(inputs)
        x = 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
        output: Tensor = self.second(x)
        return output


class Normed(Parts):
    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.second(self.norm(self.first(inputs)))
        return output


class Shifted(Parts):
    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.second(self.first(inputs) + self.shift)
        return output


class Shared(Parts):
    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.act(self.first(inputs))
        output: Tensor = self.second(hidden) + hidden.mean()
        return output


class Fed(Parts):
    """One layer's output goes into another one beside the last."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 8)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.act(self.first(inputs))
        output: Tensor = self.second(hidden * self.gate(hidden))
        return output


class Scaled(Parts):
    """A single number scales a whole row."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.second(self.act(self.first(inputs)) * self.gate(inputs))
        return output


class Twice(Parts):
    def forward(self, inputs: Tensor) -> Tensor:
        for _ in range(2):
            inputs = self.second(self.act(self.first(inputs)))
        return inputs


class Reading(Parts):
    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.second(self.act(self.first(inputs))) + self.first.weight.sum()
        return output


class Outer(nn.Module):
    """Cannot be followed itself."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: Tensor) -> Any:
        return self.inner(inputs) if bool(inputs.sum() > 0) else inputs


def test_an_activation_between_two_layers_makes_a_group() -> None:
    (group,) = linear_groups(Mlp())
    assert group.columns == ("first",)
    assert group.rows == "second"
    assert set(group.between) == {"act", "drop"}


def test_gates_are_columns_too() -> None:
    (group,) = linear_groups(Gated())
    assert (set(group.columns), group.rows) == ({"first", "gate"}, "second")


def test_a_formula_of_single_numbers_is_an_activation() -> None:
    assert linear_groups(Formula()) == [LinearGroup(("first",), "second")]


def test_layers_of_a_sequential_are_taken_in_pairs() -> None:
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Linear(4, 4), nn.ReLU()]
    pairs = [(group.columns, group.rows) for group in linear_groups(nn.Sequential(*layers))]
    assert pairs == [(("0",), "2"), (("4",), "6"), (("8",), "10")]


@pytest.mark.parametrize("kind", [Normed, Shifted, Shared, Fed, Scaled, Twice, Reading])
def test_what_needs_the_whole_of_a_layer_keeps_it_whole(kind: type[nn.Module]) -> None:
    assert linear_groups(kind()) == []


def test_parts_of_what_cannot_be_followed_are_looked_at() -> None:
    (group,) = linear_groups(Outer(Mlp()))
    assert (group.columns, group.rows) == (("inner.first",), "inner.second")
    (group,) = linear_groups(Outer(Outer(Mlp())))
    assert group.rows == "inner.inner.second"


@pytest.mark.parametrize(
    ("activation", "count"), [("relu", 2), (nn.SiLU(), 2), (functional.softmax, 0), (nn.Softmax(-1), 0)]
)
def test_torchs_layers_have_a_pair_each(activation: Any, count: int) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation=activation, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 2))
    groups = linear_groups(model)
    assert [group.rows for group in groups] == [f"0.layers.{at}.linear2" for at in range(count)]
    assert all(group.columns == (group.rows.removesuffix("2") + "1",) for group in groups)
