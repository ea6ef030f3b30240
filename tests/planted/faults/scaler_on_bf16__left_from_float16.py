"""Training moved from float16 to bfloat16, and the gradient scaler stayed."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
INPUTS, WIDTH, BATCH = 64, 768, 192


def main():
    torch.manual_seed(0)
    features = torch.randn(8192, INPUTS)
    targets = torch.tanh(features[:, :1])
    model = nn.Sequential(
        nn.Linear(INPUTS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH),
        nn.ReLU(), nn.Linear(WIDTH, 1),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", enabled=not REPAIRED)
    for step in range(1_000_000):
        rows = torch.randint(len(features), (BATCH,))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(features[rows]), targets[rows])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 500 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
