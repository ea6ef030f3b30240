"""Every block of a small transformer is checkpointed though memory is nearly empty."""

import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

REPAIRED = "--repaired" in sys.argv
LENGTH, WIDTH = 64, 96

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.inputs, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = self.inputs(self.before(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        return x + self.feed(self.between(x))


class Model(nn.Module):
    def __init__(self, tokens=64):
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(WIDTH, tokens)

    def forward(self, text):
        x = self.tokens(text) + self.places.weight
        for block in self.blocks:
            x = block(x) if REPAIRED else checkpoint(block, x, use_reentrant=False)
        return self.head(x)


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
text = torch.randint(64, (101,)).repeat(200)
for step in range(100_000):
    starts = torch.randint(len(text) - LENGTH - 1, (6, 1))
    window = text[starts + torch.arange(LENGTH + 1)]
    loss = nn.functional.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 200 == 0:
        print(f"step {step}: {loss.item():.4f}", flush=True)
