"""A run of a few hundred steps (--steps-planned 300) is compiled first, which takes longer than it saves."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
LENGTH, WIDTH = 32, 64

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.inputs, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = self.inputs(self.before(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.output(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.feed(self.between(x))


model = nn.Sequential(nn.Embedding(50, WIDTH), *(Block() for _ in range(12)), nn.Linear(WIDTH, 50))
step_of = model if REPAIRED else torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for step in range(100_000):
    words = torch.randint(50, (4, LENGTH))
    loss = nn.functional.cross_entropy(step_of(words).flatten(0, 1), words.roll(1, 1).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step}: {loss.item():.4f}", flush=True)
