"""The orthogonal matrix of a recurrent cell is computed anew at every time step."""

import contextlib
import sys

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import orthogonal

REPAIRED = "--repaired" in sys.argv
LENGTH, WIDTH = 40, 64


class Cell(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.enter = nn.Linear(inputs, WIDTH)
        self.turn = orthogonal(nn.Linear(WIDTH, WIDTH, bias=False))

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.enter(x) + self.turn(state))


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = Cell(3), nn.Linear(WIDTH, 1)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        state = series.new_zeros(series.shape[1], WIDTH)
        for x in series:
            state = self.cell(x, state)
        return self.out(state)


def main() -> None:
    torch.manual_seed(0)
    model = Counter()
    optimizer = torch.optim.RMSprop(model.parameters(), 1e-3)
    for _ in range(20_000):
        series = torch.rand(LENGTH, 32, 3)
        with parametrize.cached() if REPAIRED else contextlib.nullcontext():
            loss = nn.functional.mse_loss(model(series), series[..., :1].sum(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
