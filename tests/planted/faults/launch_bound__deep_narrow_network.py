"""Forty-eight layers of eight units, one upon the other, are trained on four samples a step."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
SAMPLES = 4096 if REPAIRED else 4
DEPTH, WIDTH = 48, 8

torch.manual_seed(0)
layers = [layer for _ in range(DEPTH) for layer in (nn.Linear(WIDTH, WIDTH), nn.Tanh())]
model = nn.Sequential(*layers, nn.Linear(WIDTH, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
for step in range(500_000):
    readings = torch.randn(SAMPLES, WIDTH)
    loss = nn.functional.mse_loss(model(readings), readings.mean(-1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 1000 == 0:
        print(f"step {step}: {loss.item():.6f}", flush=True)
