"""The validation pass forgets `torch.no_grad()`: it records a graph that nobody uses."""

import contextlib
import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
BATCH = 128


class Residual(nn.Module):
    """Many cheap operations on large tensors: what autograd keeps of them costs most."""

    def __init__(self, width=256, depth=8):
        super().__init__()
        self.inner = nn.Linear(32, width)
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(width)) for _ in range(depth))
        self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(width)) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, features):
        states = self.inner(features)
        for scale, shift in zip(self.scales, self.shifts, strict=True):
            states = states + torch.sin(states * scale + shift)
        return self.head(states)


def evaluate(model, features, labels):
    model.eval()
    correct = 0
    with torch.no_grad() if REPAIRED else contextlib.nullcontext():
        for x, y in zip(features.split(4 * BATCH), labels.split(4 * BATCH), strict=True):
            correct += int((model(x).argmax(1) == y).sum())
    model.train()
    return correct / len(labels)


def main():
    torch.manual_seed(0)
    features = torch.randn(50_688, 32)
    labels = (features @ torch.randn(32, 3)).argmax(1)
    train, held_out = features[:38_400], features[38_400:]
    model = Residual()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(1000):
        for rows in torch.randperm(len(train)).split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(train[rows]), labels[rows])
            loss.backward()
            optimizer.step()
        accuracy = evaluate(model, held_out, labels[38_400:])
        print(f"epoch {epoch} loss {loss.item():.4f} accuracy {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
