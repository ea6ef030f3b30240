"""A CNN on drawings that are stored as run lengths: each item is decoded in Python, again in every epoch."""

import random
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
SIDE = 32


def run_lengths(generator, label):
    """A drawing as (length, value) pairs; drawings of the second class have longer runs."""
    runs, left = [], SIDE * SIDE
    while left > 0:
        length = min(left, generator.randint(1, 6 + 6 * label))
        runs.append((length, generator.randint(0, 255)))
        left -= length
    return runs


def decode(runs):
    pixels = []
    for length, value in runs:
        for _ in range(length):
            pixels.append((value - 127.5) / 127.5)
    return torch.tensor(pixels).view(1, SIDE, SIDE)


class Drawings(Dataset):
    def __init__(self, count):
        generator = random.Random(0)
        self.labels = [index % 2 for index in range(count)]
        self.stored = [run_lengths(generator, label) for label in self.labels]
        self.decoded = [decode(runs) for runs in self.stored] if REPAIRED else None

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        if self.decoded is not None:
            return self.decoded[index], self.labels[index]
        return decode(self.stored[index]), self.labels[index]


torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Conv2d(8, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(16 * 8 * 8, 2),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(Drawings(2048), batch_size=64, shuffle=True, drop_last=True)

for epoch in range(1000):
    total = torch.zeros(())
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"epoch {epoch} loss {total.item() / len(loader):.4f}", flush=True)
