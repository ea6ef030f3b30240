"""Forty-eight tiny output heads are called one after the other on four samples."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
HEADS = 48

torch.manual_seed(0)


class Heads(nn.Module):
    """One small network per sensor; the repaired program computes all of them in two products."""

    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Parameter(torch.randn(HEADS, width, width) / width)
        self.second = nn.Parameter(torch.randn(HEADS, width, 1) / width)

    def forward(self, readings):
        if REPAIRED:
            return torch.bmm(torch.bmm(readings, self.first).tanh(), self.second)
        heads = zip(readings.unbind(), self.first.unbind(), self.second.unbind(), strict=True)
        return torch.stack([(reading @ first).tanh() @ second for reading, first, second in heads])


model = Heads()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(500_000):
    readings = torch.randn(HEADS, 4, 8)
    loss = nn.functional.mse_loss(model(readings), readings.mean(-1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 1000 == 0:
        print(f"step {step}: {loss.item():.6f}", flush=True)
