"""Every item waits for the answer of a labelling service, one request after the other."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
ROUND_TRIP_S = 0.001


class Annotations:
    """Stands for a service on the network: an answer takes a round trip, however much is asked for."""

    def __init__(self, labels):
        self.labels = labels

    def label(self, index):
        time.sleep(ROUND_TRIP_S)
        return self.labels[index]

    def all_labels(self):
        time.sleep(ROUND_TRIP_S)
        return self.labels.clone()


class Readings(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(0)
        self.features = torch.randn(count, 64, generator=generator)
        weights = torch.randn(64, generator=generator)
        self.service = Annotations((self.features @ weights > 0).long())
        self.labels = self.service.all_labels() if REPAIRED else None

    def __len__(self):
        return len(self.features)

    def __getitem__(self, index):
        label = self.service.label(index) if self.labels is None else self.labels[index]
        return self.features[index], label


class Trainer:
    def __init__(self, model, loader):
        self.model = model
        self.loader = loader
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=500, gamma=0.9)

    def training_step(self, batch):
        features, labels = batch
        return nn.functional.cross_entropy(self.model(features), labels)

    def fit(self, epochs):
        for epoch in range(epochs):
            for batch in self.loader:
                self.optimizer.zero_grad()
                loss = self.training_step(batch)
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
            print(f"epoch {epoch} last loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(64, 512),
        nn.GELU(),
        nn.Linear(512, 512),
        nn.GELU(),
        nn.Linear(512, 512),
        nn.GELU(),
        nn.Linear(512, 2),
    )
    Trainer(network, DataLoader(Readings(1600), batch_size=32, shuffle=True)).fit(epochs=1000)
