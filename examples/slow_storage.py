"""Trains a small network on items that come slowly, as from a network file system.

Every item waits 3 ms. The loop prepares its batches in the process that trains, so nearly the whole
step is waiting.
"""

import argparse
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

READ_SECONDS = 0.003


class StoredImages(Dataset[tuple[Tensor, Tensor]]):
    """Images of two classes; reading one takes as long as a distant disk needs."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.randint(2, (count,), generator=generator)
        noise = torch.randn(count, 1, 16, 16, generator=generator)
        self.images = noise + self.labels.view(-1, 1, 1, 1) * 0.5

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(READ_SECONDS)
        return self.images[index], self.labels[index]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=3200, help="size of the data set")
    parser.add_argument("--batch-size", type=int, default=32)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(8 * 4 * 4, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(StoredImages(options.images), batch_size=options.batch_size, shuffle=True)

    for epoch in range(options.epochs):
        began = time.perf_counter()
        total = 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        seconds = time.perf_counter() - began
        print(f"epoch {epoch} loss {total / len(loader):.4f} in {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
