"""Depthwise separable convolutions on small generated images, as networks for telephones use them.

Knobs that matter: channels_last and num_threads. Trap: amp, since a convolution of each channel by itself is
bound by memory and by its own overhead, and bfloat16 on a processor may have no fast kernel for it.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

KINDS = 8
SIDE = 32


def separable(given: int, made: int, stride: int = 1) -> nn.Sequential:
    """Every channel by itself, then all channels at every place."""
    return nn.Sequential(
        nn.Conv2d(given, given, 3, stride=stride, padding=1, groups=given, bias=False),
        nn.BatchNorm2d(given),
        nn.ReLU6(),
        nn.Conv2d(given, made, 1, bias=False),
        nn.BatchNorm2d(made),
        nn.ReLU6(),
    )


class MobileNet(nn.Module):
    """Images in, scores of the kinds out."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU6(),
            separable(32, 64), separable(64, 128, 2), separable(128, 128), separable(128, 256, 2),
        )  # fmt: skip
        self.head = nn.Linear(256, KINDS)

    def forward(self, images: Tensor) -> Tensor:
        """Images of (batch, 3, SIDE, SIDE) to scores of (batch, KINDS)."""
        scores: Tensor = self.head(self.body(images).mean((2, 3)))
        return scores


def stripes(count: int) -> TensorDataset:
    """Noisy stripes; their direction is the kind."""
    kinds = torch.randint(KINDS, (count,))
    angles = kinds[:, None, None] * torch.pi / KINDS
    down, across = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    clean = torch.sin(0.8 * (down * torch.cos(angles) + across * torch.sin(angles)))
    return TensorDataset(clean[:, None] + 0.5 * torch.randn(count, 3, SIDE, SIDE), kinds)


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = MobileNet()
    loader = DataLoader(stripes(1024), batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)

    step = 0
    while step < options.steps:
        for images, kinds in loader:
            loss = nn.functional.cross_entropy(model(images), kinds, label_smoothing=0.1)
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
