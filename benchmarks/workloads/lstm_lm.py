"""A language model of one LSTM layer on generated token sequences.

Knobs that matter: amp (1.8 to 2.0 times), matmul_precision=medium (1.4 to 1.6). Trap:
optimizer_implementation, since an SGD update is nothing beside the recurrence; compiling it would do nothing
without a word.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY = 1000
LENGTH = 32


class Language(nn.Module):
    """Tokens in, scores of the next token out."""

    def __init__(self, width: int = 128, hidden: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """Token numbers of (batch, length) to scores of (batch, length, vocabulary)."""
        states, _ = self.lstm(self.embedding(tokens))
        scores: Tensor = self.head(states)
        return scores


def texts(count: int) -> TensorDataset:
    """Sequences that count on from a random start in random strides."""
    starts, strides = torch.randint(VOCABULARY, (count, 1)), torch.randint(1, 8, (count, 1))
    return TensorDataset((starts + strides * torch.arange(LENGTH + 1)) % VOCABULARY)


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = Language()
    loader = DataLoader(texts(4096), batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    step = 0
    while step < options.steps:
        for (tokens,) in loader:
            scores = model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if step % 100 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            step += 1
            if step == options.steps:
                break


if __name__ == "__main__":
    main()
