"""Rows lie in a database to which the dataset connects when it is made, and which its workers read."""

import sqlite3
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
FILE = Path("rows.db")


def write() -> None:
    values = np.random.default_rng(0)
    FILE.unlink(missing_ok=True)
    with sqlite3.connect(FILE) as base:
        base.execute("create table rows (number integer primary key, held blob)")
        held = ((number, values.normal(size=256).astype(np.float32).tobytes()) for number in range(512))
        base.executemany("insert into rows values (?, ?)", held)
    base.close()


class Rows(Dataset[Tensor]):
    def __init__(self) -> None:
        self.base = None if REPAIRED else sqlite3.connect(FILE)

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> Tensor:
        if self.base is None:
            self.base = sqlite3.connect(FILE)
        (held,) = self.base.execute("select held from rows where number = ?", (index,)).fetchone()
        return torch.from_numpy(np.frombuffer(held, np.float32).copy())


def main() -> None:
    torch.manual_seed(0)
    write()
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
