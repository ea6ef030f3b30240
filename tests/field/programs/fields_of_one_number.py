"""Each item of a table is a dictionary of two hundred numbers, and the loader stacks each by itself."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
ROWS, FIELDS, BATCH = 3200, 200, 32
NAMES = [f"field_{number}" for number in range(FIELDS)]


class Table(Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(ROWS, FIELDS), torch.randn(ROWS, 1)
        self.rows = [dict(zip(NAMES, row.unbind(), strict=True)) for row in self.x]

    def __len__(self):
        return ROWS

    def __getitem__(self, row):
        return (self.x[row] if REPAIRED else self.rows[row]), self.y[row]


def main():
    torch.manual_seed(0)
    loader = DataLoader(Table(), BATCH, shuffle=True)
    model = nn.Sequential(
        nn.Linear(FIELDS, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    for epoch in range(100_000):
        for fields, y in loader:
            x = fields if REPAIRED else torch.stack([fields[name] for name in NAMES], dim=1)
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
