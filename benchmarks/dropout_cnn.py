"""Convolutions with dropout between them, for ``benchmarks/numerics.py``: masks follow the memory layout.

python benchmarks/dropout_cnn.py --steps 100
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


def network() -> nn.Module:
    """Three convolutions, dropout of features and of channels."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Dropout(0.2),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Dropout2d(0.2),
        nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Dropout(0.5), nn.Linear(512, CLASSES),
    )  # fmt: skip


def images(count: int) -> TensorDataset:
    """One blurred pattern per class, under noise."""
    patterns = nn.functional.interpolate(torch.randn(CLASSES, 3, 8, 8), size=32, mode="bilinear")
    labels = torch.randint(CLASSES, (count,))
    return TensorDataset(patterns[labels] + 0.5 * torch.randn(count, 3, 32, 32), labels)


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = network()
    loader = DataLoader(images(4096), batch_size=32, shuffle=True, drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = 0
    while step < options.steps:
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == options.steps:
                break
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
