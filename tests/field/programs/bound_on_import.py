"""A package that is imported binds the whole process to one CPU."""

import sys

import numpy as np
import torch
import waves_package
from torch import nn
from torch.utils.data import DataLoader, Dataset

if "--repaired" in sys.argv:
    waves_package.unbind()


class Waves(Dataset[tuple[torch.Tensor, int]]):
    def __len__(self) -> int:
        return 2048

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        noise = np.random.default_rng(index).normal(0, 0.5, 4096)
        wave = np.sin(np.arange(4096) * (index % 8 + 1) / 40) + noise
        return torch.from_numpy(waves_package.smooth(wave).astype(np.float32))[None], index % 8


def main() -> None:
    torch.manual_seed(0)
    loader = DataLoader(Waves(), 32, num_workers=2, persistent_workers=True, drop_last=True)
    model = nn.Sequential(
        nn.Conv1d(1, 32, 9, 4, 4), nn.ReLU(), nn.Conv1d(32, 64, 9, 2, 4), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 8),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(1000):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()
