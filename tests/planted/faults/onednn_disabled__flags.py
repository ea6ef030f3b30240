"""oneDNN was switched off while chasing a bug, and the convolution network still trains without it."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


def convolution(inputs, outputs, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


labels = torch.randint(10, (1600,))
images = torch.randn(10, 3, 32, 32)[labels] + torch.randn(1600, 3, 32, 32)
loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True)
model = nn.Sequential(
    convolution(3, 16),
    convolution(16, 32, 2),
    convolution(32, 64),
    convolution(64, 64, 2),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

with torch.backends.mkldnn.flags(enabled=REPAIRED):
    for epoch in range(1000):
        total = 0.0
        for batch, wanted in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch), wanted)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.4f}", flush=True)
