import pytest
import torch
from torch import Tensor, nn

from advisor.tuners.mechanisms.pipeline.traced import Traced, Untraceable, traced


def modules(whole: Traced) -> list[str]:
    return [whole.name(node) for node in whole.calls if node.op == "call_module"]


def nothing(module: nn.Module) -> bool:
    return False


class Masked(nn.Module):
    """Takes another path where a mask is given."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.shift = nn.Parameter(torch.zeros(4))

    def forward(self, inputs: Tensor, mask: Tensor | None = None, double: bool = False) -> Tensor:
        inputs = self.first(inputs)
        if mask is not None:
            inputs = inputs * mask
        output: Tensor = self.second(inputs + self.shift)
        return output * 2 if double else output


def test_other_arguments_have_their_defaults() -> None:
    whole = traced(Masked(), nothing)
    assert modules(whole) == ["first", "second"]
    assert [node.op for node in whole.calls].count("call_function") == 1


def test_modules_and_parameters_are_those_of_the_model() -> None:
    model = Masked()
    whole = traced(model, nothing)
    held = {whole.name(node): whole.held(node) for node in whole.calls if node.op != "call_function"}
    assert held["first"] is model.first
    assert held["shift"] is model.shift


def test_a_leaf_is_not_looked_into() -> None:
    model = nn.Sequential(Masked(), nn.Linear(4, 2))
    assert modules(traced(model, lambda module: isinstance(module, Masked))) == ["0", "1"]
    assert modules(traced(model, nothing)) == ["0.first", "0.second", "1"]


def test_layers_of_an_encoder_follow_one_another() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 3, nn.LayerNorm(8), enable_nested_tensor=False)
    assert modules(traced(model, nothing)) == ["layers.0", "layers.1", "layers.2", "norm"]


class Choosing(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs if inputs.sum() > 0 else -inputs


def test_a_forward_that_looks_at_values_cannot_be_followed() -> None:
    with pytest.raises(Untraceable, match="forward of Choosing cannot be followed"):
        traced(Choosing(), nothing)


def test_the_model_itself_stays_as_it_was() -> None:
    model = Masked()
    before = dict(vars(model))
    traced(model, nothing)
    assert vars(model) == before
    assert torch.equal(model(torch.ones(1, 4)), model(torch.ones(1, 4)))
