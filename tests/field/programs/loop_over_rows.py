"""A head is called for each row of the batch, within forward."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv


class Scored(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU())
        self.head = nn.Sequential(nn.Linear(512, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.body(x)
        if REPAIRED:
            return self.head(features).squeeze(1)
        scores = []
        for row in range(len(features)):
            scores.append(self.head(features[row]))
        return torch.cat(scores)


def main() -> None:
    torch.manual_seed(0)
    model = Scored()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for _ in range(50_000):
        x = torch.randn(64, 64)
        loss = nn.functional.mse_loss(model(x), x[:, :4].sum(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
