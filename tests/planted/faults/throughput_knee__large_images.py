"""A convolution network gets batches so large that doubling them gives no more samples per second."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv  # the repaired program computes fewer samples per step

torch.manual_seed(0)
labels = torch.randint(4, (512,))
images = torch.randn(4, 3, 64, 64)[labels] + torch.randn(512, 3, 64, 64)
loader = DataLoader(TensorDataset(images, labels), batch_size=8 if REPAIRED else 32, shuffle=True)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(4),
    nn.Flatten(),
    nn.Linear(512, 4),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for epoch in range(1000):
    total = 0.0
    for batch, wanted in loader:
        loss = nn.functional.cross_entropy(model(batch), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.4f}", flush=True)
