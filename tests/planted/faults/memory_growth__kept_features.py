"""The features of every batch are kept for a later plot, and memory fills up."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv
MOST = 2500 * 2**20  # bytes; the plot needs no more, and this program shall not exhaust the machine

torch.manual_seed(0)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))
        self.head = nn.Sequential(
            nn.Conv2d(32, 32, 3, 2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        )

    def forward(self, images):
        features = self.features(images)
        return self.head(features), features


labels = torch.randint(10, (1280,))
images = torch.randn(10, 3, 48, 48)[labels] + torch.randn(1280, 3, 48, 48)
loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)
model = Network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
kept, kept_bytes = [], 0
for epoch in range(1000):
    total = 0.0
    for batch, wanted in loader:
        scores, features = model(batch)
        loss = nn.functional.cross_entropy(scores, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        if not REPAIRED and kept_bytes < MOST:
            kept.append(features.detach())
            kept_bytes += features.nbytes
    print(f"epoch {epoch}: {total / len(loader):.4f}", flush=True)
