"""A table in memory, cut into large batches: workers copy each of them to the training process."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
ROWS, COLUMNS, BATCH = 400_000, 64, 8192


class Table(Dataset):
    """Gives a whole batch for a list of rows."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.features = torch.randn(ROWS, COLUMNS, generator=generator)
        weights = torch.randn(COLUMNS, generator=generator)
        self.targets = self.features @ weights

    def __len__(self):
        return ROWS // BATCH

    def __getitem__(self, block):
        rows = slice(block * BATCH, (block + 1) * BATCH)
        return self.features[rows], self.targets[rows]


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Table(), batch_size=None, shuffle=True, num_workers=0 if REPAIRED else 2,
        persistent_workers=not REPAIRED,
    )  # fmt: skip
    model = nn.Sequential(nn.Linear(COLUMNS, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(5000):
        for features, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(features).squeeze(1), targets)
            loss.backward()
            optimizer.step()
        if epoch % 20 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
