"""A compiled recurrent classifier sees more sentence lengths than torch is willing to compile for."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
LENGTHS = range(10, 34)

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self, words=500, width=96):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.mix = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 2)

    def forward(self, sentence):
        x = self.embedding(sentence)
        x = self.norm(x + self.mix(x))
        return self.head(x.mean(1))


model = Classifier()
compiled = torch.compile(model, backend="eager", dynamic=REPAIRED)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
for step in range(200_000):
    words = torch.randint(500, (64, LENGTHS[step % len(LENGTHS)]))
    positive = ((words < 250).float().mean(1) > 0.5).long()
    loss = nn.functional.cross_entropy(compiled(words), positive)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 500 == 0:
        print(f"step {step}: {loss.item():.4f}", flush=True)
