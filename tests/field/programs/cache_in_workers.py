"""A dataset keeps what it has decoded, in workers that end with each epoch."""

import sys

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv


class Pictures(Dataset[Tensor]):
    def __init__(self) -> None:
        self.coded = np.random.default_rng(0).integers(256, size=(128, 1024), dtype=np.uint8)
        self.decoded: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self.coded)

    def __getitem__(self, index: int) -> Tensor:
        if index not in self.decoded:
            self.decoded[index] = self.decode(self.coded[index])
        return self.decoded[index]

    def decode(self, code: np.ndarray) -> Tensor:
        value, values = 0, []
        for _ in range(8):
            for each in code.tolist():
                value = (value * 31 + each) % 257
                values.append(value)
        return torch.tensor(values[-1024:], dtype=torch.float32) / 257


def main() -> None:
    torch.manual_seed(0)
    loader = DataLoader(Pictures(), batch_size=16, shuffle=True, num_workers=2, persistent_workers=REPAIRED)
    model = nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 1024))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(10_000):
        for batch in loader:
            loss = nn.functional.mse_loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()
