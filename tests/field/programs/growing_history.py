"""A mean of all losses so far is computed from the list of them in every step."""

import statistics
import sys
from collections import deque

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 16))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    data, wanted = torch.randn(4096, 128), torch.randint(16, (4096,))
    history: deque[float] = deque(maxlen=20 if REPAIRED else None)
    for step in range(1_000_000):
        rows = slice(step % 32 * 128, step % 32 * 128 + 128)
        loss = nn.functional.cross_entropy(model(data[rows]), wanted[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
        for group in optimizer.param_groups:
            group["lr"] = min(0.01, 0.01 * statistics.variance([*history, 1.0]) + 0.001)


main()
