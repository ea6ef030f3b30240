"""Learns the next word of each line, and computes the scores of all words at every place of it."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
WORDS, LENGTH, BATCH = 2000, 8, 16


class Reader(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.states = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, lines):
        states, _ = self.states(self.words(lines))
        if REPAIRED:
            return self.head(states[:, -1:])
        return self.head(states)


def main():
    torch.manual_seed(0)
    model = Reader()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    lines, following = torch.randint(WORDS, (4000, LENGTH)), torch.randint(WORDS, (4000,))
    for step in range(1_000_000):
        rows = torch.randint(len(lines), (BATCH,))
        scores = model(lines[rows])
        loss = nn.functional.cross_entropy(scores[:, -1], following[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 1000 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
