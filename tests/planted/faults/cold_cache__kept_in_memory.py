"""A dataset keeps what it has read: in a short run (--steps-planned 200) the slow first epoch weighs."""

import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
REMOTE_S = 0.0012  # to open a file
COUNT = 1024
STEPS = 48


class Series(Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.glob("*.bin"))
        self.kept = {}

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        if index not in self.kept:
            if not REPAIRED:
                time.sleep(REMOTE_S)
            content = bytearray(self.files[index].read_bytes())
            self.kept[index] = torch.frombuffer(content, dtype=torch.float32).view(STEPS, 8)
        series = self.kept[index]
        return series[:-1], series[-1]


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 96, batch_first=True)
        self.head = nn.Linear(96, 8)

    def forward(self, series):
        return self.head(self.rnn(series)[0][:, -1])


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for index in range(COUNT):
            series = torch.randn(STEPS, 8).cumsum(0) / STEPS**0.5
            (folder / f"{index:05d}.bin").write_bytes(series.numpy().tobytes())
        loader = DataLoader(Series(folder), batch_size=32, shuffle=True)
        model = Forecast()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for epoch in range(1000):
            for past, following in loader:
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(past), following)
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
