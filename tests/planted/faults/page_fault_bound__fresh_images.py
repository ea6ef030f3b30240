"""Each step makes large new images and drops them, so the system maps the same memory again and again."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
BATCH, SIZE = 48, 256

torch.manual_seed(0)


class Augmentation(nn.Module):
    """Random contrast and brightness; the repaired program writes into memory that it keeps."""

    def __init__(self):
        super().__init__()
        self.scaled = torch.empty(BATCH, 3, SIZE, SIZE) if REPAIRED else None
        self.shifted = torch.empty(BATCH, 3, SIZE, SIZE) if REPAIRED else None

    def forward(self, images, contrast, brightness):
        scaled = torch.mul(images, contrast, out=self.scaled)
        return torch.add(scaled, brightness, out=self.shifted)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.augmentation = Augmentation()
        self.layers = nn.Sequential(
            nn.AvgPool2d(16), nn.Flatten(), nn.Linear(3 * (SIZE // 16) ** 2, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, images, contrast, brightness):
        return self.layers(self.augmentation(images, contrast, brightness)).squeeze(1)


originals = torch.rand(BATCH, 3, SIZE, SIZE)
model = Network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
for step in range(100_000):
    contrast, brightness = 0.5 + torch.rand(BATCH, 1, 1, 1), torch.rand(BATCH, 1, 1, 1)
    loss = nn.functional.mse_loss(model(originals, contrast, brightness), brightness.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step}: {loss.item():.4f}", flush=True)
