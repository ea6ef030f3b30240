"""The loss takes the logarithm of probabilities that reach zero, and is NaN from then on."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
BATCH, CLASSES = 128, 8


def entropy_loss(scores, labels):
    """Cross entropy, less a little of the entropy of what is predicted."""
    if REPAIRED:
        logarithms = scores.log_softmax(1)
        probabilities = logarithms.exp()
    else:
        probabilities = scores.softmax(1)
        logarithms = probabilities.log()
    likelihood = logarithms.gather(1, labels[:, None]).mean()
    entropy = -(probabilities * logarithms).sum(1).mean()
    return -likelihood - 0.01 * entropy


def main():
    torch.manual_seed(0)
    features = 20 * torch.randn(20_000, 64)
    labels = (features @ torch.randn(64, CLASSES)).argmax(1)
    model = nn.Sequential(
        nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
        nn.Linear(512, CLASSES),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(1000):
        for rows in torch.randperm(len(features)).split(BATCH):
            optimizer.zero_grad()
            loss = entropy_loss(model(features[rows]), labels[rows])
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
