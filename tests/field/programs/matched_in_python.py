"""The loss pairs what was found with what was sought in a loop of Python numbers."""

import sys

import torch
from torch import Tensor, nn

REPAIRED = "--repaired" in sys.argv


class Matcher(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))

    def forward(self, values: Tensor, sought: Tensor) -> Tensor:
        found = self.net(values)
        pairs = self.nearest(found.detach(), sought)
        return (found - sought[pairs]).square().mean()

    def nearest(self, found: Tensor, sought: Tensor) -> Tensor:
        if REPAIRED:
            return torch.cdist(found, sought).argmin(1)
        ours, theirs = found.tolist(), sought.tolist()
        pairs = []
        for one in ours:
            apart = [sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) for other in theirs]
            pairs.append(apart.index(min(apart)))
        return torch.tensor(pairs)


def main() -> None:
    torch.manual_seed(0)
    model = Matcher()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(100_000):
        loss = model(torch.randn(64, 64), torch.randn(64, 8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
