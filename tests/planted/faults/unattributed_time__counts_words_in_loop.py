"""The loop counts the trigrams of each text in Python, the same again in every epoch."""

import random
import sys
import zlib

import numpy as np
import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
BUCKETS, BATCH, LETTERS = 512, 64, "abcdefghijklmnopqrstuvwxyz"


def write_texts(count):
    """Texts of two authors, each with words of their own."""
    generator = random.Random(0)
    words = [
        ["".join(generator.choices(LETTERS, k=generator.randint(3, 7))) for _ in range(80)] for _ in range(2)
    ]
    authors = [index % 2 for index in range(count)]
    return [" ".join(generator.choices(words[author], k=24)) for author in authors], authors


def trigrams(text):
    """How often each trigram occurs, by a hash of it."""
    counts = np.zeros(BUCKETS, np.float32)
    for place in range(len(text) - 2):
        counts[zlib.crc32(text[place : place + 3].encode()) % BUCKETS] += 1.0
    return counts


if __name__ == "__main__":
    torch.manual_seed(0)
    texts, authors = write_texts(3200)
    labels = torch.tensor(authors)
    prepared = torch.from_numpy(np.stack([trigrams(text) for text in texts])) if REPAIRED else None
    model = nn.Sequential(
        nn.Linear(BUCKETS, 384), nn.ReLU(), nn.Dropout(0.2), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.99)
    for epoch in range(10_000):
        for rows in torch.randperm(len(texts)).split(BATCH):
            if prepared is None:
                features = torch.from_numpy(np.stack([trigrams(texts[row]) for row in rows.tolist()]))
            else:
                features = prepared[rows]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(features), labels[rows])
            loss.backward()
            optimizer.step()
        scheduler.step()
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
