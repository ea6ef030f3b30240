"""A whole table waits to be scored, and the loader was left at its default: batches of one row."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv
torch.set_num_threads(1)
torch.manual_seed(0)
table = TensorDataset(torch.randn(200_000, 512))
model = nn.Sequential(
    nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
    nn.Linear(1024, 4),
).eval()  # fmt: skip
loader = DataLoader(table, batch_size=64) if REPAIRED else DataLoader(table)
scores = []
with torch.inference_mode():
    for _ in range(100):
        for (rows,) in loader:
            scores.append(model(rows).softmax(-1).max(-1).values)
            del scores[:-1000]
