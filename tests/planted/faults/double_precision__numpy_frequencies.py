"""A coordinate network encodes its inputs with float64 frequencies of numpy, so sines take long."""

import sys

import numpy as np
import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


class Encoding(nn.Module):
    """Sines and cosines of each coordinate at rising frequencies."""

    def __init__(self, bands):
        super().__init__()
        frequencies = torch.from_numpy(np.linspace(1.0, 64.0, bands) * np.pi)
        self.register_buffer("frequencies", frequencies.float() if REPAIRED else frequencies)

    def forward(self, points):
        angles = points.unsqueeze(-1) * self.frequencies
        waves = torch.cat([angles.sin(), angles.cos()], dim=-1)
        return waves.flatten(1).float()


class Field(nn.Module):
    def __init__(self, bands=64, width=64):
        super().__init__()
        self.encoding = Encoding(bands)
        self.layers = nn.Sequential(
            nn.Linear(2 * 2 * bands, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 3),
        )

    def forward(self, points):
        return self.layers(self.encoding(points)).sigmoid()


def colour(points):
    x, y = points[:, 0], points[:, 1]
    return torch.stack([(9 * x).sin(), (7 * y).cos(), (5 * x * y).sin()], dim=1) * 0.4 + 0.5


model = Field()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
running = None
for step in range(200_000):
    points = torch.rand(2048, 2)
    loss = nn.functional.mse_loss(model(points), colour(points))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    running = loss.item() if running is None else 0.99 * running + 0.01 * loss.item()
    if step % 500 == 0:
        print(f"step {step}: {running:.5f}", flush=True)
