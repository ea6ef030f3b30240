"""A compiled tagger meets a new length of sentences again and again, and is compiled for each of them."""

import random
import sys

import torch
import torch._dynamo
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
VOCABULARY, TAGS, BATCH = 200, 5, 16
torch._dynamo.config.recompile_limit = 512  # each length shall be compiled


class Sentences(Dataset):
    """Sorted by length in groups of a batch, so that little is padded."""

    def __init__(self, count):
        generator = random.Random(0)
        lengths = sorted(generator.randint(24, 63) for _ in range(count))
        groups = [lengths[start : start + BATCH] for start in range(0, count, BATCH)]
        generator.shuffle(groups)
        tokens = torch.Generator().manual_seed(0)
        self.rows = [
            torch.randint(1, VOCABULARY, (length,), generator=tokens) for group in groups for length in group
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def collate(rows):
    tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    if REPAIRED:  # one of few lengths
        tokens = nn.functional.pad(tokens, (0, -tokens.shape[1] % 64))
    return tokens, tokens % TAGS


class Tagger(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width, padding_idx=0)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.head = nn.Linear(width, TAGS)

    def forward(self, tokens):
        states = self.embedding(tokens)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            states = norm(states + torch.relu(layer(states.transpose(1, 2))).transpose(1, 2))
        return self.head(states)


def main():
    torch.manual_seed(0)
    loader = DataLoader(Sentences(BATCH * 400), batch_size=BATCH, collate_fn=collate, drop_last=True)
    model = Tagger()
    compiled = torch.compile(model, backend="eager", dynamic=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1000):
        for tokens, tags in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(compiled(tokens).flatten(0, 1), tags.flatten())
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
