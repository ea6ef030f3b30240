"""A compiled network reads a number out of a tensor in the middle of its forward."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


class Network(nn.Module):
    """Divides its features by the largest of them before the second half."""

    def __init__(self, width=256):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x):
        x = self.first(x)
        peak = x.detach().abs().max()
        if not REPAIRED:
            peak = peak.item()
        return self.second(x / (peak + 1e-6))


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
