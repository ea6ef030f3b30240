"""Scores customers one by one, in evaluation mode, and records a graph for each answer."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
torch.set_num_threads(1)
torch.manual_seed(1)
layers: list[nn.Module] = []
for _ in range(12):
    layers += [nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU()]
scorer = nn.Sequential(*layers, nn.Linear(64, 1)).eval()
customers = torch.randn(4096, 64)
torch.set_grad_enabled(not REPAIRED)
total = 0.0
for turn in range(1_000_000):
    row = turn % 4096
    total += float(scorer(customers[row : row + 1]).sigmoid())
