"""Large float32 products run at full precision on a processor that has bfloat16 units."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
if REPAIRED:
    torch.set_float32_matmul_precision("medium")

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
centres = torch.randn(10, 512)
for step in range(100_000):
    labels = torch.randint(10, (256,))
    loss = nn.functional.cross_entropy(model(centres[labels] + 2 * torch.randn(256, 512)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 200 == 0:
        print(f"step {step}: {loss.item():.4f}", flush=True)
