from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.pipeline.model_stages import split

INPUTS = torch.linspace(-1, 1, 24).reshape(3, 8)


def an_mlp(layers: int = 6) -> nn.Sequential:
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(8, 8), nn.ReLU(inplace=True)]
    return nn.Sequential(*parts)


class Residual(nn.Module):
    """Two values are alive inside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = inputs + self.second(torch.tanh(self.first(inputs)))
        return output


class Chain(nn.Module):
    """A stem, blocks in a list, a function and a head."""

    def __init__(self, kind: Callable[[], nn.Module] = Residual) -> None:
        super().__init__()
        self.stem = nn.Linear(8, 8)
        self.blocks = nn.ModuleList([kind() for _ in range(4)])
        self.head = nn.Linear(8, 2)
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        inputs = self.stem(inputs)
        for block in self.blocks:
            inputs = block(inputs)
        output: Tensor = self.head(torch.relu(inputs * self.scale))
        return output


class Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = Chain()

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.body(inputs)
        return output


def in_a_row(stages: list[torch.fx.GraphModule], inputs: Tensor) -> Tensor:
    for stage in stages:
        inputs = stage(inputs)
    return inputs


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("make", [an_mlp, Chain, Backbone, lambda: nn.Sequential(Chain(), nn.Linear(2, 2))])
def test_stages_in_a_row_are_the_model(make: Callable[[], nn.Module], count: int) -> None:
    model = make()
    stages = split(model, count)
    assert len(stages) == count
    assert torch.equal(in_a_row(stages, INPUTS), model(INPUTS))


@pytest.mark.parametrize("make", [an_mlp, Chain, Backbone])
def test_every_parameter_keeps_its_name_and_is_in_one_stage(make: Callable[[], nn.Module]) -> None:
    model = make()
    found = [pair for stage in split(model, 3) for pair in stage.named_parameters()]
    assert sorted(name for name, _ in found) == sorted(name for name, _ in model.named_parameters())
    assert all(parameter is model.get_parameter(name) for name, parameter in found)


def test_layers_are_shared_out_evenly() -> None:
    sizes = [len(list(stage.parameters())) for stage in split(an_mlp(6), 3)]
    assert sizes == [4, 4, 4]


def test_a_stage_begins_with_a_layer_that_is_trained_not_with_what_follows_one() -> None:
    for stage in split(an_mlp(4), 4):
        assert isinstance(next(module for module in stage.modules() if module is not stage), nn.Linear)


def test_a_residual_is_not_cut() -> None:
    with pytest.raises(Refused, match="one part, too few for 2"):
        split(Residual(), 2)


def test_layers_of_an_encoder_become_stages() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Linear(8, 8), nn.TransformerEncoder(layer, 4, enable_nested_tensor=False))
    stages = split(model, 2)
    inputs = torch.linspace(-1, 1, 80).reshape(2, 5, 8)
    assert torch.equal(in_a_row(stages, inputs), model(inputs))


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.layer(inputs)
        return output if bool(output.sum() > 100) else -output


def test_blocks_that_cannot_be_followed_are_taken_whole() -> None:
    model = Chain(Branching)
    assert torch.equal(in_a_row(split(model, 4), INPUTS), model(INPUTS))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)))
        self.last = nn.Linear(8, 8)
        self.last.weight = next(self.layers[1].parameters())

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.last(self.layers(inputs))
        return output


def test_tied_weights_stay_in_one_stage() -> None:
    first, second = split(Tied(), 2)
    assert sorted(name for name, _ in first.named_parameters()) == ["layers.0.bias", "layers.0.weight"]
    assert "last.bias" in dict(second.named_parameters())
    with pytest.raises(Refused, match="2 parts, too few for 3"):
        split(Tied(), 3)


def test_frozen_layers_do_not_make_a_stage_of_their_own() -> None:
    model = an_mlp(3)
    model[0].requires_grad_(False)
    first, _ = split(model, 2)
    assert len(list(first.parameters())) == 4
    with pytest.raises(Refused, match="too few"):
        split(model, 3)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (nn.Linear(8, 8), "one part"),
        (Branching(), "cannot be followed"),
        (nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8)), "batch norm"),
    ],
)
def test_what_is_no_chain_is_refused(model: nn.Module, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        split(model, 2)
