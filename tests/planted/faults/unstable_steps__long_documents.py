"""Every tenth document is far longer than the others, and the step that reads it takes far longer."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
VOCABULARY, WIDTH, BATCH = 300, 64, 16
SHORT, LONG, EVERY = 20, 140, 10
EVEN = (SHORT * (EVERY - 1) + LONG) // EVERY  # cut into pieces of one length, as many tokens in all


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.rnn = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.rnn(self.embedding(tokens))[0])


def documents(generator):
    """Batches of token ids that count upwards, each batch of one length."""
    number = 0
    while True:
        length = EVEN if REPAIRED else LONG if number % EVERY == EVERY - 1 else SHORT
        starts = torch.randint(VOCABULARY, (BATCH, 1), generator=generator)
        yield (starts + torch.arange(length + 1)) % VOCABULARY
        number += 1


def main():
    torch.manual_seed(0)
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=1_000_000)
    for step, tokens in enumerate(documents(torch.Generator().manual_seed(0))):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % 500 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
