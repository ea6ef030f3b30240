"""Each step makes large new images and drops them, so the system maps the same memory again and again."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
BATCH, SIZE = 48, 256

torch.manual_seed(0)
originals = torch.rand(BATCH, 3, SIZE, SIZE)
scaled = torch.empty_like(originals) if REPAIRED else None
shifted = torch.empty_like(originals) if REPAIRED else None


def augmented(images):
    """Random contrast and brightness; the repaired program writes into memory that it keeps."""
    contrast, brightness = 0.5 + torch.rand(BATCH, 1, 1, 1), torch.rand(BATCH, 1, 1, 1)
    return torch.add(torch.mul(images, contrast, out=scaled), brightness, out=shifted), brightness.flatten()


model = nn.Sequential(
    nn.AvgPool2d(16), nn.Flatten(), nn.Linear(3 * (SIZE // 16) ** 2, 64), nn.ReLU(), nn.Linear(64, 1)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
for step in range(100_000):
    images, brightness = augmented(originals)
    loss = nn.functional.mse_loss(model(images).squeeze(1), brightness)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step}: {loss.item():.4f}", flush=True)
