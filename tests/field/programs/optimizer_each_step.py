"""The rate rises in the first steps, so each step makes an optimizer with the rate of the moment."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv


def rate(step):
    return 1e-3 * min(1.0, (step + 1) / 100)


def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def optimizer_for(model, step):
    return torch.optim.AdamW(model.parameters(), lr=rate(step), fused=True)


def main():
    torch.manual_seed(0)
    layers = [layer for _ in range(3) for layer in (nn.Linear(256, 256), nn.ReLU())]
    model = nn.Sequential(nn.Linear(16, 256), *layers, nn.Linear(256, 1))
    x, y = torch.randn(5000, 16), torch.randn(5000, 1)
    optimizer = optimizer_for(model, 0)
    for step in range(1_000_000):
        rows = torch.randint(len(x), (128,))
        if REPAIRED:
            for group in optimizer.param_groups:
                group["lr"] = rate(step)
        else:
            optimizer = optimizer_for(model, step)
        loss = train_step(model, optimizer, x[rows], y[rows])
        if step % 1000 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
