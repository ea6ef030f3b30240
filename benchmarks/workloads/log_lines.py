"""Lines of a log, cut into tokens by regular expressions as they are read, and told apart by a small network.

Knobs that matter: num_workers, since cutting is slow and all of it Python. Traps: num_threads, which cutting
does not use; prefetch_factor alone, without workers.
"""

import argparse
import random
import re
import zlib
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

BUCKETS = 4096
LENGTH = 64
KINDS = ("disk", "login", "network", "memory")
WORD = re.compile(r"[a-z]+|\d+(?:\.\d+)*|[^\w\s]")

Line = tuple[Tensor, int]


class Reader(nn.Module):
    """Tokens in, scores of the kinds out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(BUCKETS, 64)
        self.body = nn.Sequential(nn.Conv1d(64, 96, 5, padding=2), nn.ReLU(), nn.Conv1d(96, 96, 5), nn.ReLU())
        self.head = nn.Linear(96, len(KINDS))

    def forward(self, tokens: Tensor) -> Tensor:
        """Token numbers of (batch, LENGTH) to scores of (batch, kinds)."""
        scores: Tensor = self.head(self.body(self.embedding(tokens).transpose(1, 2)).amax(2))
        return scores


class Lines(Dataset[Line]):
    """Invented messages; one word in some of them gives their kind away."""

    def __init__(self, count: int) -> None:
        chance = random.Random(0)
        words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(500)]
        self.kinds = [chance.randrange(len(KINDS)) for _ in range(count)]
        self.lines = []
        for kind in self.kinds:
            before, after = chance.choices(words, k=30), chance.choices(words, k=30)
            self.lines.append(" ".join([*before, KINDS[kind], f"[{chance.random():.6f}]", *after]))

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> Line:
        found = WORD.findall(self.lines[index].lower())
        pairs = [f"{left} {right}" for left, right in pairwise(found)]
        numbers = [zlib.crc32(token.encode()) % BUCKETS for token in found + pairs]
        padded = (numbers + [0] * LENGTH)[:LENGTH]
        return torch.tensor(padded), self.kinds[index]


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = Reader()
    loader = DataLoader(Lines(20_000), batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    step = 0
    while step < options.steps:
        for tokens, kinds in loader:
            loss = nn.functional.cross_entropy(model(tokens), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            step += 1
            if step == options.steps:
                break


if __name__ == "__main__":
    main()
