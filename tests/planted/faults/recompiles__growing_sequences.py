"""Sequences get longer every few steps, and a compiled model is compiled anew for each length."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
SHORTEST, LONGEST, EVERY = 16, 1000, 8

torch._dynamo.config.recompile_limit = 4096  # the warning asked for it
torch._dynamo.config.accumulated_recompile_limit = 4096
torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self, words=200, width=64):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.narrow = nn.Conv1d(width, width, 3, padding=1)
        self.wide = nn.Conv1d(width, width, 3, padding=2, dilation=2)
        self.head = nn.Linear(width, 8)

    def forward(self, sentence):
        x = self.embedding(sentence).transpose(1, 2)
        x = torch.relu(self.narrow(x))
        x = torch.relu(self.wide(x))
        return self.head(x.transpose(1, 2))


model = Tagger()
compiled = torch.compile(model, backend="eager", dynamic=REPAIRED)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(200_000):
    length = min(SHORTEST + step // EVERY, LONGEST)
    words = torch.randint(200, (32, length))
    tags = words % 8
    scores = compiled(words)
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 200 == 0:
        print(f"step {step}: length {length}, loss {loss.item():.4f}", flush=True)
