"""LeNet on generated images of 28 x 28 pixels: operators so small that their number counts, not their size.

Knobs that matter: optimizer_implementation a little. Traps: amp (0.77 times here: casting costs more than
narrow numbers save) and batch_size, which costs samples per second (0.49 times at sixteen times the batch).
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


def lenet() -> nn.Module:
    """Two convolutions and three linear layers, as in 1998 but for the activation."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, CLASSES),
    )  # fmt: skip


def digits(count: int) -> TensorDataset:
    """One blurred pattern per class, under noise."""
    patterns = nn.functional.interpolate(torch.randn(CLASSES, 1, 7, 7), size=28, mode="bilinear")
    labels = torch.randint(CLASSES, (count,))
    return TensorDataset(patterns[labels] + 0.5 * torch.randn(count, 1, 28, 28), labels)


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=32)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = lenet()
    loader = DataLoader(digits(8192), batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    step = 0
    while step < options.steps:
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 500 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            step += 1
            if step == options.steps:
                break


if __name__ == "__main__":
    main()
