"""Blocks write their values into messages that the level of the log keeps from being shown."""

import logging
import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
LOG = logging.getLogger("blocks")
logging.basicConfig(level=logging.INFO)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inside = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if REPAIRED:
            LOG.debug("a block of %s: %s", x.shape, x)
        else:
            LOG.debug(f"a block of {x.shape}: {x}")
        return x + torch.relu(self.inside(x))


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[Block(128) for _ in range(4)], nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(50_000):
        loss = nn.functional.cross_entropy(model(torch.randn(64, 128)), torch.randint(0, 10, (64,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
