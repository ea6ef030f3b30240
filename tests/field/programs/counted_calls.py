"""A compiled module counts its calls in an integer, so it is compiled anew until torch gives up."""

import math
import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv


class Annealed(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.randn(32, width) / math.sqrt(width))
        self.register_buffer("calls", torch.zeros(()))
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if REPAIRED:
            self.calls += 1
            heat = 1 + torch.exp(-1e-3 * self.calls)
        else:
            self.count += 1
            heat = 1 + math.exp(-1e-3 * self.count)
        return torch.softmax(x @ self.codes.T / heat, -1) @ self.codes


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), Annealed(128), nn.LayerNorm(128), nn.Linear(128, 8))
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(20_000):
        x = torch.randn(256, 64)
        loss = nn.functional.cross_entropy(compiled(x), x[:, :8].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
