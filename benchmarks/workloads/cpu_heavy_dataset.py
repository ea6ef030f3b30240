"""Items that have to be decoded: each is unpacked and shrunk, as a compressed photograph would be.

Knobs that matter: num_workers, up to the number of free cores. Traps: more workers than that, or workers
beside more threads (num_threads), share the same cores and lose (0.79 to 0.88 times on a busy machine);
prefetch_factor gains nothing, since a longer queue makes no worker faster.
"""

import argparse
import zlib

import numpy
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

SIDE = 192
SMALL = 32
CLASSES = 4


class Photographs(Dataset[tuple[Tensor, int]]):
    """Smooth images, kept compressed."""

    def __init__(self, count: int) -> None:
        generator = numpy.random.default_rng(0)
        self.labels = generator.integers(0, CLASSES, count).tolist()
        patterns = generator.integers(0, 256, (CLASSES, SIDE // 4, SIDE // 4, 3), dtype=numpy.uint8)
        large = [numpy.kron(pattern, numpy.ones((4, 4, 1), numpy.uint8)) for pattern in patterns]
        self.packed = [
            zlib.compress(large[label] ^ generator.integers(0, 4, large[label].shape, dtype=numpy.uint8), 1)
            for label in self.labels
        ]

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        pixels = numpy.frombuffer(zlib.decompress(self.packed[index]), numpy.uint8)
        blocks = pixels.reshape(SMALL, SIDE // SMALL, SMALL, SIDE // SMALL, 3).astype(numpy.float32)
        small = blocks.mean(axis=(1, 3)).transpose(2, 0, 1) / 128 - 1
        return torch.from_numpy(numpy.ascontiguousarray(small)), self.labels[index]


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(64, CLASSES),
    )  # fmt: skip
    loader = DataLoader(Photographs(512), batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    step = 0
    while step < options.steps:
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            step += 1
            if step == options.steps:
                break


if __name__ == "__main__":
    main()
