"""Points go to the nearest of learned centres by the differences of all pairs, squared and added up."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
POINTS, BATCH = 8192, 256


class Centres(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.places = nn.Parameter(torch.randn(count, width))
        self.out = nn.Linear(count, 10)

    def forward(self, x):
        if REPAIRED:
            far = torch.cdist(x, self.places).square()
        else:
            apart = x[:, None, :] - self.places[None, :, :]
            far = (apart**2).sum(-1)
        return self.out(torch.softmax(-far, dim=1))


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 64), Centres(64, 128))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    points, classes = torch.randn(POINTS, 32), torch.randint(10, (POINTS,))
    for step in range(1_000_000):
        rows = torch.randint(POINTS, (BATCH,))
        loss = nn.functional.cross_entropy(model(points[rows]), classes[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 1000 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
