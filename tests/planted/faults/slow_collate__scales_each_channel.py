"""The collate function scales every channel of every window, one at a time, for each batch anew."""

import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
CHANNELS, LENGTH = 9, 128


class Recordings(Dataset):
    """Windows of an accelerometer, each channel with a range of its own."""

    def __init__(self, count):
        generator = np.random.default_rng(0)
        self.labels = np.arange(count) % 5
        ranges = generator.uniform(0.5, 4.0, (count, CHANNELS, 1))
        shifts = self.labels[:, None, None] * np.linspace(-1.0, 1.0, LENGTH)
        noise = generator.standard_normal((count, CHANNELS, LENGTH))
        self.windows = ((noise + shifts) * ranges).astype(np.float32)
        if REPAIRED:
            self.windows = np.stack([scaled(window) for window in self.windows])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.windows[index], self.labels[index]


def scaled(window):
    return np.stack([(channel - np.median(channel)) / (np.ptp(channel) + 1e-6) for channel in window])


def collate(samples):
    windows, labels = zip(*samples, strict=True)
    if not REPAIRED:
        windows = [scaled(window) for window in windows]
    return torch.from_numpy(np.stack(windows)), torch.from_numpy(np.stack(labels))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv1d(CHANNELS, 48, 9, stride=4)
        self.memory = nn.GRU(48, 64, batch_first=True)
        self.head = nn.Linear(64, 5)

    def forward(self, windows):
        states, _ = self.memory(self.body(windows).relu().transpose(1, 2))
        return self.head(states[:, -1])


def main():
    torch.manual_seed(0)
    loader = DataLoader(Recordings(1024), batch_size=32, shuffle=True, drop_last=True, collate_fn=collate)
    model = Recurrent()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(1000):
        for windows, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(windows), labels)
            loss.backward()
            optimizer.step()
        if epoch % 10 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
