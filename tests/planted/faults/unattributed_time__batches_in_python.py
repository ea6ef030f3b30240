"""Batches of a language model are cut out of the text in a Python loop, character by character."""

import random
import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
CONTEXT, BATCH = 64, 32
LETTERS = "abcdefghijklmnopqrstuvwxyz .,"
CODES = {letter: code for code, letter in enumerate(LETTERS)}


def write_text(length):
    generator = random.Random(0)
    words = ["".join(generator.choices(LETTERS[:26], k=generator.randint(2, 7))) for _ in range(60)]
    text = []
    while len(text) < length:
        text.extend(generator.choice(words) + " ")
    return "".join(text[:length])


def cut_batch(text, codes, generator):
    starts = [generator.randrange(len(text) - CONTEXT - 1) for _ in range(BATCH)]
    if REPAIRED:
        rows = torch.stack([codes[start : start + CONTEXT + 1] for start in starts])
        return rows[:, :-1], rows[:, 1:]
    inputs, targets = [], []
    for start in starts:
        inputs.append([CODES[text[place]] for place in range(start, start + CONTEXT)])
        targets.append([CODES[text[place + 1]] for place in range(start, start + CONTEXT)])
    return torch.tensor(inputs), torch.tensor(targets)


class CharacterModel(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), width)
        self.convolution = nn.Conv1d(width, width, 5)
        self.head = nn.Linear(width, len(LETTERS))

    def forward(self, codes):
        states = nn.functional.pad(self.embedding(codes).transpose(1, 2), (4, 0))
        return self.head(torch.relu(self.convolution(states)).transpose(1, 2))


if __name__ == "__main__":
    torch.manual_seed(0)
    text = write_text(200_000)
    codes = torch.tensor([CODES[letter] for letter in text])
    model = CharacterModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    generator = random.Random(1)
    for step in range(1_000_000):
        inputs, targets = cut_batch(text, codes, generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        if step % 500 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
