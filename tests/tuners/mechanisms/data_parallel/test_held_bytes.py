import torch
from torch import nn, optim

from advisor.tuners.mechanisms.data_parallel.held_bytes import held_bytes, held_state_bytes


def test_a_shared_tensor_is_held_once() -> None:
    tensor = torch.ones(3)
    assert held_bytes([tensor, tensor, torch.ones(2, dtype=torch.float64)]) == 12 + 16


def test_momenta_are_state_and_before_the_first_update_there_are_none() -> None:
    parameter = nn.Parameter(torch.ones(5))
    optimizer = optim.SGD([parameter], lr=0.1, momentum=0.9)
    assert held_state_bytes(optimizer) == 0
    parameter.grad = torch.ones(5)
    optimizer.step()
    assert held_state_bytes(optimizer) == 20
