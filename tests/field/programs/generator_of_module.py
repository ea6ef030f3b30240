"""Items are moved at random by a generator that lies beside the dataset, in the module."""

import sys

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
RNG = np.random.RandomState(7)


def moved(row: Tensor) -> Tensor:
    shift = np.random.randint(16) if REPAIRED else RNG.randint(16)
    return row.roll(int(shift))


class Rows(Dataset[Tensor]):
    def __init__(self) -> None:
        self.rows = torch.randn(2048, 256)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        return moved(self.rows[index])


def main() -> None:
    torch.manual_seed(0)
    loader = DataLoader(Rows(), batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)
    layers = [layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    model = nn.Sequential(nn.Linear(256, 1024), *layers, nn.Linear(1024, 256))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(10_000):
        for batch in loader:
            loss = nn.functional.mse_loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()
