"""Attention without a softmax still makes scores of all places for all places."""

import sys

import torch
from torch import Tensor, nn

REPAIRED = "--repaired" in sys.argv
LENGTH, WIDTH, HEADS, BATCH = 512, 64, 2, 4

torch.manual_seed(0)


class LinearAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.inputs(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = nn.functional.elu(q) + 1, (nn.functional.elu(k) + 1) / length
        mixed = q @ (k.mT @ v) if REPAIRED else (q @ k.mT) @ v
        return x + self.output(mixed.transpose(1, 2).reshape(x.shape))


waves = torch.arange(200_000) / 7
signal = (waves.sin() + (0.37 * waves).cos() + 0.1 * torch.randn(len(waves)))[:, None]
model = nn.Sequential(nn.Linear(1, WIDTH), LinearAttention(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
for step in range(1_000_000):
    starts = torch.randint(len(signal) - LENGTH, (BATCH, 1))
    whole = signal[starts + torch.arange(LENGTH)]
    hidden = torch.rand(BATCH, LENGTH, 1) < 0.2
    loss = (model(whole.masked_fill(hidden, 0.0)) - whole).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 500 == 0:
        print(f"step {step}: {loss.item():.4f}", flush=True)
