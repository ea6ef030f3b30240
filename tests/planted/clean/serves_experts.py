"""Scores the next word of a few texts at a time, each by the two experts of sixteen that a router picks."""

import torch
from torch import nn

WORDS, WIDTH, HIDDEN, EXPERTS, TEXTS = 2_000, 256, 512, 16, 4

torch.set_num_threads(1)
torch.manual_seed(0)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN) / WIDTH**0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH) / HIDDEN**0.5)

    def forward(self, x):
        weight, expert = self.router(x).softmax(dim=-1).topk(2, dim=-1)
        hidden = nn.functional.gelu(torch.einsum("ti,taio->tao", x, self.up[expert]))
        return x + torch.einsum("ta,tao,taoi->ti", weight, hidden, self.down[expert])


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.Sequential(Experts(), nn.LayerNorm(WIDTH), Experts(), nn.LayerNorm(WIDTH))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        return self.head(self.layers(self.words(words)))


model = Scorer().eval()
words = torch.randint(WORDS, (256, TEXTS))
with torch.inference_mode():
    for turn in range(1_000_000):
        model(words[turn % 256])
