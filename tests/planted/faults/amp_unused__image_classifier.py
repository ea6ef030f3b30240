"""A convolution network computes in float32 where bfloat16 would be twice as fast."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)
labels = torch.randint(10, (1024,))
images = torch.randn(10, 16, 16, 16)[labels] + torch.randn(1024, 16, 16, 16)
images = images.contiguous(memory_format=torch.channels_last)
loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True)
model = nn.Sequential(
    nn.Conv2d(16, 64, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(64, 64, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(64, 64, 3, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, 10),
).to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(1000):
    total = 0.0
    for batch, wanted in loader:
        batch = batch.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=REPAIRED):
            loss = nn.functional.cross_entropy(model(batch), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.4f}", flush=True)
