"""A stream of samples is copied into two workers, and each of them delivers all of it."""

import itertools
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

REPAIRED = "--repaired" in sys.argv


class Stream(IterableDataset):
    def __init__(self, count, seed=0):
        self.count = count
        self.seed = seed

    def samples(self):
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.count):
            values = torch.randn(128, generator=generator)
            yield values, (values[:64].sum() > values[64:].sum()).long()

    def __iter__(self):
        info = get_worker_info()
        if REPAIRED and info is not None:
            return itertools.islice(self.samples(), info.id, None, info.num_workers)
        return self.samples()


class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(128, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(),
            nn.Linear(768, 2),
        )  # fmt: skip
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)

    def step(self, values, labels):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(values), labels)
        loss.backward()
        self.optimizer.step()
        return loss

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for values, labels in loader:
                loss = self.step(values, labels)
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    loader = DataLoader(Stream(6400), batch_size=64, num_workers=2, persistent_workers=True)
    Trainer().fit(loader, epochs=1000)
