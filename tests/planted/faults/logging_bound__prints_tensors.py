"""Each step prints its scores and gradients, as they were once looked at."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
PRINT_EVERY = 500 if REPAIRED else 1
BATCH = 64


def main():
    torch.manual_seed(0)
    images = torch.randn(4096, 1, 16, 16)
    labels = (images.mean((1, 2, 3)) > 0).long()
    images += 0.2 * labels.view(-1, 1, 1, 1)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 2),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    step = 0
    for epoch in range(10_000):
        for rows in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            scores = model(images[rows])
            loss = nn.functional.cross_entropy(scores, labels[rows])
            loss.backward()
            optimizer.step()
            step += 1
            if step % PRINT_EVERY == 0:
                print("epoch", epoch, "step", step, "loss", loss.detach(), "scores", scores.detach())
                print("gradients of the first layer", model[0].weight.grad, model[0].bias.grad)
                print("gradients of the last layer", model[6].weight.grad, model[6].bias.grad, flush=True)


if __name__ == "__main__":
    main()
