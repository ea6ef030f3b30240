"""Reads its own arguments, and trains a convolution by direct calls of forward."""

import argparse
import random

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
random.seed(args.seed)
torch.manual_seed(args.seed)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.features(x))


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(args.steps):
    images = torch.randn(8, 1, 12, 12) + random.random()
    loss = nn.functional.cross_entropy(model.forward(images), torch.arange(8) % 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
