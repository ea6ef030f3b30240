"""A batch sampler draws rows by their last loss out of a million, once for every batch."""

import sys
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv
ROWS, BATCH = 10_000 if REPAIRED else 1_000_000, 64


class ByLoss:
    def __init__(self) -> None:
        self.weights = np.ones(ROWS)
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return 100

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(len(self)):
            chances = self.weights / self.weights.sum()
            yield self.rng.choice(ROWS, BATCH, replace=False, p=chances).tolist()


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(4096, 64).repeat(ROWS // 4096 + 1, 1)[:ROWS]
    data = TensorDataset(x, torch.arange(ROWS))
    sampler = ByLoss()
    loader = DataLoader(data, batch_sampler=sampler, num_workers=2, persistent_workers=True)
    model = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(1000):
        for batch, rows in loader:
            losses = nn.functional.mse_loss(model(batch), batch[:, :1], reduction="none")
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            sampler.weights[rows.numpy()] = (losses.detach().squeeze(1).numpy() + 1e-3) ** 0.6


main()
