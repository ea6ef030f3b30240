"""A compiled network reads a number out of a tensor in the middle of its forward, in every block."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


class Rescaled(nn.Module):
    """A layer whose output is divided by its largest value."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.largest = 0.0

    def forward(self, x):
        x = self.linear(x)
        if REPAIRED:
            return torch.relu(x / x.detach().abs().max().clamp(min=1e-6))
        peak = max(x.detach().abs().max().item(), 1e-6)
        return torch.relu(x / peak)


class Network(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.first = nn.Linear(32, width)
        self.blocks = nn.ModuleList(Rescaled(width) for _ in range(4))
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)


model = torch.compile(Network(), backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
direction = torch.randn(32, 1) / 6
for step in range(200_000):
    inputs = torch.randn(256, 32)
    loss = nn.functional.mse_loss(model(inputs), (inputs @ direction).sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 500 == 0:
        print(f"step {step}: {loss.item():.5f}", flush=True)
