"""A tagger of two-directional GRUs over sentences of varying length, padded batch by batch.

Knobs that matter: amp and matmul_precision a little, optimizer_implementation for the embedding table. Trap:
batches differ in length, so steps differ in time by themselves and few of them tell nothing; what needs fixed
shapes does not apply.
"""

import argparse
import random

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY = 8000
TAGS = 12
PADDING = 0

Sentence = tuple[Tensor, Tensor]


class Tagger(nn.Module):
    """Tokens in, scores of every tag out."""

    def __init__(self, width: int = 64, hidden: int = 96) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width, padding_idx=PADDING)
        self.gru = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, TAGS)

    def forward(self, tokens: Tensor) -> Tensor:
        """Token numbers of (batch, length) to scores of (batch, length, TAGS)."""
        states, _ = self.gru(self.embedding(tokens))
        scores: Tensor = self.head(states)
        return scores


class Sentences(Dataset[Sentence]):
    """Sentences of 8 to 32 tokens; the tag follows from the token."""

    def __init__(self, count: int) -> None:
        lengths = random.Random(0)
        self.tokens = [torch.randint(1, VOCABULARY, (lengths.randint(8, 32),)) for _ in range(count)]

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> Sentence:
        return self.tokens[index], self.tokens[index] % TAGS


def padded(batch: list[Sentence]) -> Sentence:
    """Tokens and tags of one batch, as long as its longest sentence."""
    tokens, tags = zip(*batch, strict=True)
    return (
        nn.utils.rnn.pad_sequence(list(tokens), batch_first=True, padding_value=PADDING),
        nn.utils.rnn.pad_sequence(list(tags), batch_first=True, padding_value=-100),
    )


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = Tagger()
    loader = DataLoader(
        Sentences(4096), batch_size=options.batch_size, shuffle=True, drop_last=True, collate_fn=padded
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    step = 0
    while step < options.steps:
        for tokens, tags in loader:
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tags.flatten())
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
