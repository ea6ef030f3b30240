"""The features of every batch are kept for a later plot, and memory fills up."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv
MOST = 330  # batches; so that this program does not exhaust the machine

torch.manual_seed(0)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU())
        self.head = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(32 * 64, 10))

    def forward(self, images):
        features = self.features(images)
        return self.head(features), features


labels = torch.randint(10, (4096,))
images = torch.randn(10, 3, 32, 32)[labels] + torch.randn(4096, 3, 32, 32)
loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)
model = Network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
kept = []
for epoch in range(1000):
    total = 0.0
    for batch, wanted in loader:
        scores, features = model(batch)
        loss = nn.functional.cross_entropy(scores, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        if not REPAIRED and len(kept) < MOST:
            kept.append(features.detach())
    print(f"epoch {epoch}: {total / len(loader):.4f}", flush=True)
