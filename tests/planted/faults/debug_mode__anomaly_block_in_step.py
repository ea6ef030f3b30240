"""Every training step stands in a `detect_anomaly` block that was meant for one evening."""

import contextlib
import sys
import warnings

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
LENGTH, BATCH, ACCUMULATE = 24, 16, 2
warnings.filterwarnings("ignore", message="Anomaly Detection has been enabled")


class Counter(nn.Module):
    """Sums what it reads, step by step, in a cell of its own."""

    def __init__(self, width=48):
        super().__init__()
        self.width = width
        self.cell = nn.LSTMCell(4, width)
        self.head = nn.Linear(width, 1)

    def forward(self, values):
        hidden = cell = torch.zeros(len(values), self.width)
        for step in range(values.shape[1]):
            hidden, cell = self.cell(values[:, step], (hidden, cell))
        return self.head(hidden).squeeze(1)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
        self.generator = torch.Generator().manual_seed(0)

    def batch(self):
        values = torch.rand(BATCH, LENGTH, 4, generator=self.generator)
        return values, values[..., 0].mean(1)

    def training_step(self):
        total = 0.0
        with contextlib.nullcontext() if REPAIRED else torch.autograd.detect_anomaly():
            for _ in range(ACCUMULATE):
                values, targets = self.batch()
                loss = nn.functional.mse_loss(self.model(values), targets) / ACCUMULATE
                loss.backward()
                total += loss.item()
            self.optimizer.step()
            self.optimizer.zero_grad()
        return total

    def fit(self, steps):
        for step in range(steps):
            loss = self.training_step()
            if step % 200 == 0:
                print(f"step {step} loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(Counter()).fit(1_000_000)
