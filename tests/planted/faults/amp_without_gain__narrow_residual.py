"""bf16 autocast around a deep, narrow network: converting takes longer than the small products."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.outer(torch.relu(self.inner(x)))


class Trainer:
    def __init__(self, model, optimizer, mixed):
        self.model, self.optimizer, self.mixed = model, optimizer, mixed

    def step(self, states, returns):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.mixed):
            values = self.model(states)
        loss = nn.functional.smooth_l1_loss(values.float().squeeze(1), returns)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


critic = nn.Sequential(nn.Linear(24, 24), *(Residual(24) for _ in range(10)), nn.Linear(24, 1))
direction = torch.randn(24) / 5
optimizer = torch.optim.SGD(critic.parameters(), lr=0.003, fused=True)
trainer = Trainer(critic, optimizer, mixed=not REPAIRED)
running = 0.0
for step in range(500_000):
    states = torch.randn(32, 24)
    running = 0.99 * running + 0.01 * trainer.step(states, states @ direction)
    if step % 2000 == 0:
        print(f"step {step}: {running:.4f}", flush=True)
