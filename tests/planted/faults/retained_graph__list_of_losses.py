"""A trainer appends each loss, with its graph, to a list that it averages at the end."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


class Forecaster(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.recurrent = nn.GRU(1, width, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, series):
        states, _ = self.recurrent(series)
        return self.head(states[:, -1])


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.losses = []

    def batch(self):
        start = 6.28 * torch.rand(32, 1)
        series = torch.sin(start + 0.3 * torch.arange(33)).unsqueeze(-1)
        return series[:, :-1], series[:, -1]

    def fit(self, steps):
        for step in range(steps):
            series, following = self.batch()
            loss = nn.functional.mse_loss(self.model(series), following)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.losses.append(loss.detach() if REPAIRED else loss)
            if step % 500 == 0:
                print(
                    f"step {step}: {float(sum(self.losses[-100:])) / len(self.losses[-100:]):.5f}", flush=True
                )


Trainer(Forecaster(), lr=0.02).fit(100_000)
