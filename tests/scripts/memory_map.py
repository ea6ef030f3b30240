"""A small language model that reads its batches from a memory map, without a DataLoader."""

import os
import tempfile

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.blocks = nn.ModuleList([Block(16) for _ in range(3)])
        self.head = nn.Linear(16, 32)

    def forward(self, tokens, targets=None):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        loss = (
            None if targets is None else nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        )
        return logits, loss


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "tokens.bin")
    np.random.default_rng(0).integers(0, 32, 4096, dtype=np.uint16).tofile(path)
    tokens = np.memmap(path, dtype=np.uint16, mode="r")

    def batch():
        starts = torch.randint(len(tokens) - 17, (8,))
        rows = torch.stack([torch.from_numpy(tokens[s : s + 17].astype(np.int64)) for s in starts])
        return rows[:, :-1], rows[:, 1:]

    model = Language()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.eval()
    with torch.no_grad():
        print(f"before {model(*batch())[1].item():.6f}")
    model.train()
    for _ in range(15):
        _, loss = model(*batch())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"{loss.item():.6f}")
