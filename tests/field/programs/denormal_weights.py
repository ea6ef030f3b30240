"""Weights of units that died long ago have decayed to numbers below the smallest normal one."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
WIDTH, DEAD = 512, 0.6


def layer(generator: torch.Generator) -> nn.Linear:
    made = nn.Linear(WIDTH, WIDTH)
    dead = torch.randperm(WIDTH, generator=generator)[: int(DEAD * WIDTH)]
    with torch.no_grad():
        made.weight[dead] *= 1e-38
        made.bias[dead] = -0.5
    return made


def main() -> None:
    if REPAIRED:
        torch.set_flush_denormal(True)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(3)
    hidden = [part for _ in range(4) for part in (layer(generator), nn.ReLU())]
    model = nn.Sequential(*hidden, nn.Linear(WIDTH, 2))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for _ in range(50_000):
        x = torch.randn(64, WIDTH)
        loss = nn.functional.cross_entropy(model(x), (x[:, :8].sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
