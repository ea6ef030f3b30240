import pytest
import torch
from sharded_training import Block
from torch import nn

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.blocks import repeated_blocks
from advisor.tuners.mechanisms.data_parallel.sharding import Unit, refuse_unshardable, unit_of


def test_a_unit_sends_its_parameters_for_each_gathering_and_its_gradients_once() -> None:
    unit = Unit(gathered=400, reduced=200, gathers=2)
    assert unit.sent(4, gloo=False) == 2 * 300 + 150
    assert unit.sent(4, gloo=True) == 2 * 300 + 2 * 150


def test_shared_parameters_count_once_and_frozen_ones_have_no_gradient() -> None:
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    second.weight = first.weight
    second.bias.requires_grad_(False)
    unit = unit_of([*first.parameters(), *second.parameters()], 1)
    assert (unit.gathered, unit.reduced) == (4 * (6 + 2 + 2), 4 * (6 + 2))


def test_other_types_change_what_travels_of_floating_point_numbers() -> None:
    whole = nn.Parameter(torch.ones(4, dtype=torch.int32), requires_grad=False)
    unit = unit_of([nn.Parameter(torch.ones(4)), whole], 1, torch.bfloat16, torch.float32)
    assert (unit.gathered, unit.reduced) == (2 * 4 + 4 * 4, 4 * 4)


def test_a_block_that_stands_in_two_places_cannot_be_two_units() -> None:
    block = Block()
    model = nn.Sequential(nn.Sequential(block, Block()), nn.Sequential(block, Block()))
    blocks = repeated_blocks(model)
    assert len(blocks) == 2  # nested ones, which both hold the block
    with pytest.raises(Refused, match="share parameters"):
        refuse_unshardable(model, blocks)


def test_a_head_may_share_the_weight_of_an_embedding_outside_of_blocks() -> None:
    model = nn.Sequential(nn.Embedding(5, 12), nn.Sequential(Block(), Block()), nn.Linear(12, 5))
    model[2].weight = model[0].weight
    refuse_unshardable(model, repeated_blocks(model))


def test_a_scripted_part_is_refused() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))

    with pytest.raises(Refused, match="scripted"):
        refuse_unshardable(Net(), [])
