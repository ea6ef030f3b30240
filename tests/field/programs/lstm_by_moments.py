"""A forecaster gives a recurrent layer one moment at a time."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
MOMENTS, BATCH, FEATURES, HIDDEN = 16, 4, 8, 16


class Forecaster(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.LSTM(FEATURES, HIDDEN)
        self.head = nn.Linear(HIDDEN, FEATURES)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        if REPAIRED:
            return self.head(self.memory(series)[0])
        state, seen = None, []
        for moment in range(len(series)):
            hidden, state = self.memory(series[moment : moment + 1], state)
            seen.append(self.head(hidden))
        return torch.cat(seen)


def main() -> None:
    torch.manual_seed(0)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(50_000):
        series = torch.randn(MOMENTS + 1, BATCH, FEATURES).cumsum(0)
        loss = nn.functional.mse_loss(model(series[:-1]), series[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
