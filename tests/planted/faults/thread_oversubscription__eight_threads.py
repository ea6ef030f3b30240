"""A program written for a large machine computes with eight threads, whatever CPUs it has."""

import os
import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
torch.set_num_threads(min(8, len(os.sched_getaffinity(0))) if REPAIRED else 8)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(),
            nn.Linear(256, 1),
        )  # fmt: skip

    def forward(self, features):
        return self.layers(features).squeeze(1)


def batches(features, targets, size):
    for rows in torch.randperm(len(features)).split(size):
        yield features[rows], targets[rows]


def main():
    torch.manual_seed(0)
    features = torch.randn(32_000, 128)
    targets = torch.sin(features.sum(1) / 8)
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(10_000):
        for x, y in batches(features, targets, 320):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
