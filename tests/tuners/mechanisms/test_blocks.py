"""Which modules of a model are its repeated blocks."""

import torch
from torch import nn

from advisor.profiles.hooks.model.model_facts import root_facts
from advisor.tuners.mechanisms.blocks import repeated_blocks


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.inner = nn.Sequential(nn.Sequential(nn.Tanh()), nn.Sequential(nn.Tanh()))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.inner(self.layer(inputs))
        return output


def test_blocks_are_found_outermost_and_in_order() -> None:
    blocks = [Block() for _ in range(3)]
    model = nn.ModuleDict({"stem": nn.Linear(2, 2), "body": nn.ModuleList(blocks), "head": nn.Linear(2, 2)})
    assert repeated_blocks(model) == blocks
    assert root_facts(model).repeated_blocks == 3


def test_stages_each_give_their_blocks() -> None:
    stages = [nn.Sequential(Block(), Block(), nn.Tanh()), nn.Sequential(nn.Tanh(), Block(), Block())]
    model = nn.Module()
    model.first, model.second = stages
    assert repeated_blocks(model) == [stages[0][0], stages[0][1], stages[1][1], stages[1][2]]


def test_layers_without_parts_and_single_blocks_are_none() -> None:
    assert repeated_blocks(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Sequential(nn.Tanh()))) == []
    assert repeated_blocks(nn.Sequential(nn.Linear(2, 2))) == []


def test_what_a_container_of_containers_holds_is_looked_through() -> None:
    blocks = [Block() for _ in range(4)]
    model = nn.ModuleList([nn.ModuleList(blocks[:2]), nn.ModuleList(blocks[2:])])
    assert repeated_blocks(model) == blocks
