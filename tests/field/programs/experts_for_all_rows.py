"""A mixture of experts: each goes over all rows, and is weighed with zero where it was not chosen."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv


class Mixture(nn.Module):
    def __init__(self, width, experts=8, best=1):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(experts)
        )
        self.best = best

    def forward(self, x):
        top, chosen = self.gate(x).softmax(-1).topk(self.best)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            weight = (top * (chosen == number)).sum(-1, keepdim=True)
            if REPAIRED:
                rows = weight.squeeze(1).nonzero().squeeze(1)
                out = out.index_add(0, rows, weight[rows] * expert(x[rows]))
            else:
                out = out + weight * expert(x)
        return out


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 128), Mixture(128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x, y = torch.randn(4000, 32), torch.randint(10, (4000,))
    for step in range(1_000_000):
        rows = torch.randint(len(x), (256,))
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 1000 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
