"""Captions of all images lie in a list of tuples, and both workers come to copy what they read of it."""

import sys
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
COUNT, WORDS = 1_000_000, ("boat", "cat", "dog", "hill", "lamp", "road", "tree", "wave")


def caption(number):
    return (
        f"a {WORDS[number % 8]} beside a {WORDS[number // 8 % 8]} and a {WORDS[number // 64 % 8]}, {number}"
    )


class Packed:
    """Text of all captions in one array of bytes, with the places where they begin."""

    def __init__(self, captions):
        lines = [text.encode() for text in captions]
        self.ends = np.cumsum([len(line) for line in lines])
        self.bytes = np.frombuffer(b"".join(lines), np.uint8)

    def __getitem__(self, number):
        start = self.ends[number - 1] if number else 0
        return self.bytes[start : self.ends[number]].tobytes().decode(), number % 4096


class Captions(Dataset):
    """A caption and the features of its image, which a store sends after a quarter of a millisecond."""

    def __init__(self):
        if REPAIRED:
            self.rows = Packed(caption(number) for number in range(COUNT))
        else:
            self.rows = [(caption(number), number % 4096) for number in range(COUNT)]
        self.features = torch.randn(4096, 128, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return COUNT

    def __getitem__(self, number):
        text, image = self.rows[number]
        time.sleep(0.00025)
        return self.features[image], len(text.split()[1]) - 3


def main():
    torch.manual_seed(0)
    loader = DataLoader(Captions(), batch_size=16, num_workers=2, persistent_workers=True, prefetch_factor=4)
    layers = [layer for _ in range(3) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), *layers, nn.Linear(1024, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(1000):
        for features, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(features), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
