"""A character model writes attention out by hand: scores, mask, softmax, weighted sum."""

import math
import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
LENGTH, WIDTH, HEADS, BATCH = 256, 64, 4, 4

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.inputs(x).view(batch, length, 3, HEADS, width // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        if REPAIRED:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            scores = scores.masked_fill(self.mask, float("-inf"))
            mixed = scores.softmax(dim=-1) @ v
        return self.output(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.between = nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.feed(self.between(x))


class CharacterModel(nn.Module):
    def __init__(self, characters):
        super().__init__()
        self.tokens = nn.Embedding(characters, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, characters)

    def forward(self, text):
        x = self.tokens(text) + self.places(torch.arange(text.shape[1]))
        return self.head(self.blocks(x))


text = torch.randint(32, (97,)).repeat(30_000)
text = torch.where(torch.rand(len(text)) < 0.05, 0, text)
model = CharacterModel(32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
for step in range(100_000):
    starts = torch.randint(len(text) - LENGTH - 1, (BATCH,)).tolist()
    window = torch.stack([text[at : at + LENGTH + 1] for at in starts])
    scores = model(window[:, :-1])
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), window[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 200 == 0:
        print(f"step {step}: {loss.item():.4f}", flush=True)
