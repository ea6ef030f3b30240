"""bf16 autocast with four samples per step: each step converts all weights, and no product is large."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


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


critic = nn.Sequential(
    nn.Linear(64, 768),
    nn.ReLU(),
    nn.Linear(768, 768),
    nn.ReLU(),
    nn.Linear(768, 768),
    nn.ReLU(),
    nn.Linear(768, 1),
)
direction = torch.randn(64) / 8
trainer = Trainer(critic, torch.optim.SGD(critic.parameters(), lr=0.003), mixed=not REPAIRED)
running = 0.0
for step in range(200_000):
    states = torch.randn(4, 64)
    running = 0.99 * running + 0.01 * trainer.step(states, states @ direction)
    if step % 1000 == 0:
        print(f"step {step}: {running:.4f}", flush=True)
