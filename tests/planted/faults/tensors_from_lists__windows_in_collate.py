"""The collate function makes tensors of sensor values, lists of Python floats, for each batch."""

import random
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
CHANNELS, LENGTH = 6, 128


class Windows(Dataset):
    def __init__(self, count):
        generator = random.Random(0)
        self.labels = [index % 4 for index in range(count)]
        self.windows = [
            [[generator.gauss(0.3 * label, 1.0) for _ in range(LENGTH)] for _ in range(CHANNELS)]
            for label in self.labels
        ]
        if REPAIRED:
            self.windows = [torch.tensor(window) for window in self.windows]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.windows[index], self.labels[index]


def collate(samples):
    windows, labels = zip(*samples, strict=True)
    if REPAIRED:
        return torch.stack(windows), torch.tensor(labels)
    return torch.tensor(windows), torch.tensor(labels)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(CHANNELS, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(32, 64, 5, padding=2),
            nn.ReLU(),
        )
        self.head = nn.Linear(64, 4)

    def forward(self, windows):
        return self.head(self.body(windows).mean(dim=2))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Windows(960), batch_size=64, shuffle=True, collate_fn=collate)
    model = ConvNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1000):
        model.train()
        for windows, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(windows), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        if epoch % 10 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
