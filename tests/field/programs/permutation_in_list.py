"""A sampler makes a list of a permutation of all windows at the start of each short epoch, and uses few."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
WINDOWS, LENGTH, BATCH, BATCHES = 2_000_000, 16, 256, 60


class Series(Dataset):
    def __init__(self):
        self.values = torch.randn(WINDOWS + LENGTH)

    def __len__(self):
        return WINDOWS

    def __getitem__(self, rows):
        windows = self.values[torch.tensor(rows)[:, None] + torch.arange(LENGTH)]
        return windows[:, :-1], windows[:, -1:]


class Windows:
    def __len__(self):
        return BATCHES

    def __iter__(self):
        if REPAIRED:
            for _ in range(BATCHES):
                yield torch.randint(WINDOWS, (BATCH,)).tolist()
            return
        order = torch.randperm(WINDOWS).tolist()
        for batch in range(BATCHES):
            yield order[batch * BATCH : (batch + 1) * BATCH]


def main():
    torch.manual_seed(0)
    loader = DataLoader(Series(), batch_size=None, sampler=Windows())
    model = nn.Sequential(
        nn.Linear(LENGTH - 1, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    for epoch in range(100_000):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
