"""Trains a convolution network on small photos that a slow store hands out one at a time.

Nothing is wrong with it, and much of its time is lost: the loop waits for each photo in turn, the
optimizer updates one tensor after the other, and convolutions reorder their images. The photos are
generated, one blurred pattern per class under noise; reading one waits for a few milliseconds.
"""

import argparse
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 10
SIDE = 32
NOISE = 8.0
READ_SECONDS = 0.003


class Photos(Dataset[tuple[Tensor, int]]):
    """Photos of 3 x 32 x 32 with their class; each is read from the store when it is asked for."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(0)
        coarse = torch.randn(CLASSES, 3, 8, 8, generator=generator)
        self.patterns = nn.functional.interpolate(coarse, size=SIDE, mode="bilinear")
        self.labels = torch.randint(CLASSES, (count,), generator=generator)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(READ_SECONDS)
        label = int(self.labels[index])
        noise = torch.randn(3, SIDE, SIDE, generator=torch.Generator().manual_seed(index))
        return self.patterns[label] + NOISE * noise, label


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * (SIDE // 4) ** 2, 1024),
        nn.ReLU(),
        nn.Linear(1024, CLASSES),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--photos", type=int, default=3200, help="size of the data set")
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loader = DataLoader(Photos(options.photos), batch_size=options.batch_size, shuffle=True)

    for epoch in range(options.epochs):
        began = time.perf_counter()
        total = 0.0
        for photos, labels in loader:
            loss = nn.functional.cross_entropy(model(photos), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        seconds = time.perf_counter() - began
        print(f"epoch {epoch} loss {total / len(loader):.4f} in {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
