"""Rows lie in an archive that the dataset opens when it is made, and reads in workers."""

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
FILE = Path("rows.zip")


def write() -> None:
    values = np.random.default_rng(0)
    with zipfile.ZipFile(FILE, "w") as archive:
        for number in range(512):
            buffer = io.BytesIO()
            np.save(buffer, values.normal(size=256).astype(np.float32))
            archive.writestr(f"{number}.npy", buffer.getvalue())


class Rows(Dataset[Tensor]):
    def __init__(self) -> None:
        self.archive = None if REPAIRED else zipfile.ZipFile(FILE)

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> Tensor:
        if self.archive is None:
            self.archive = zipfile.ZipFile(FILE)
        return torch.from_numpy(np.load(io.BytesIO(self.archive.read(f"{index}.npy"))))


def main() -> None:
    torch.manual_seed(0)
    write()
    loader = DataLoader(Rows(), batch_size=8, shuffle=True, num_workers=1, persistent_workers=True)
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
