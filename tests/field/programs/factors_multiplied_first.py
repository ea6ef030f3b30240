"""Layers of low rank multiply their factors to the whole matrix in each step, and then the batch with it."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
WIDTH, RANK, ROWS, BATCH = 768, 12, 2048, 32


class LowRank(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Parameter(torch.randn(WIDTH, RANK) / WIDTH**0.5)
        self.up = nn.Parameter(torch.randn(RANK, WIDTH) / RANK**0.5)

    def forward(self, x):
        if REPAIRED:
            return (x @ self.down) @ self.up
        weight = torch.einsum("nr,rm->nm", self.down, self.up)
        return x @ weight


def main():
    torch.manual_seed(0)
    model = nn.Sequential(LowRank(), nn.ReLU(), LowRank(), nn.ReLU(), nn.Linear(WIDTH, 10))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    x, classes = torch.randn(ROWS, WIDTH), torch.randint(10, (ROWS,))
    for step in range(1_000_000):
        rows = torch.randint(ROWS, (BATCH,))
        loss = nn.functional.cross_entropy(model(x[rows]), classes[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 1000 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
