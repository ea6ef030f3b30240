"""Gradients of a very wide network are filled with zeros before each backward instead of being dropped."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


class Retrieval(nn.Module):
    """Scores a query against a large set of classes."""

    def __init__(self, features=1024, width=256, classes=8192):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, width), nn.ReLU())
        self.classes = nn.Linear(width, classes)

    def forward(self, query):
        return self.classes(self.body(query))


model = Retrieval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
centres = torch.randn(8192, 1024)
running = 9.0
for step in range(200_000):
    wanted = torch.randint(8192, (4,))
    queries = centres[wanted] + 0.1 * torch.randn(4, 1024)
    optimizer.zero_grad(set_to_none=REPAIRED)
    loss = nn.functional.cross_entropy(model(queries), wanted)
    loss.backward()
    optimizer.step()
    running = 0.99 * running + 0.01 * loss.item()
    if step % 500 == 0:
        print(f"step {step}: {running:.4f}", flush=True)
