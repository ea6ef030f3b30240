"""Normalisation and activation are written out as chains of small elementwise operators."""

import math
import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


def gelu(x):
    if REPAIRED:
        return nn.functional.gelu(x, approximate="tanh")
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return x + gelu(self.linear(x))


model = nn.Sequential(nn.Linear(16, 64), Layer(64), Layer(64), Layer(64), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(100_000):
    x = torch.rand(4096, 16)
    loss = nn.functional.mse_loss(model(x), (3 * x).sin().mean(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 200 == 0:
        print(f"step {step}: {loss.item():.6f}", flush=True)
