"""Statistics of every weight are written to a log in each step: they cost more than the training."""

import argparse
import os

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--repaired", action="store_true", help="describe them every 500 steps")
args = parser.parse_args()

torch.manual_seed(0)
blocks = [layer for _ in range(12) for layer in (nn.Linear(96, 96), nn.LayerNorm(96), nn.GELU())]
net = nn.Sequential(*blocks, nn.Linear(96, 8))
optimizer = torch.optim.AdamW(net.parameters(), fused=True)


def described(weight: torch.Tensor) -> str:
    """Mean, bounds, spread and size of one weight."""
    parts = weight.mean(), weight.min(), weight.max(), weight.std(), weight.abs().quantile(0.9)
    return " ".join(f"{part:.4f}" for part in parts)


with open(os.devnull, "w") as log:
    for step in range(20_000):
        inputs, labels = torch.randn(32, 96), torch.randint(0, 8, (32,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
        if not args.repaired or step % 500 == 499:
            for name, weight in net.named_parameters():
                log.write(f"{name} {described(weight.detach())}\n")
