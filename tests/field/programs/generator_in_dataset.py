"""A transform adds noise from a generator of its own, of which each worker has a copy."""

import sys

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv


class Noise:
    def __init__(self) -> None:
        self.rng = None if REPAIRED else np.random.default_rng(0)

    def __call__(self, row: Tensor) -> Tensor:
        if self.rng is None:
            self.rng = np.random.default_rng(torch.initial_seed() % 2**32)
        return row + torch.from_numpy(self.rng.normal(size=row.shape).astype(np.float32))


class Rows(Dataset[Tensor]):
    def __init__(self) -> None:
        self.rows = torch.randn(2048, 256)
        self.transform = Noise()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        return self.transform(self.rows[index])


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
