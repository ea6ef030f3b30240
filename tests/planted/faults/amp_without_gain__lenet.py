"""bf16 autocast around a LeNet whose layers are too small to gain from it."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.Tanh(),
            nn.AvgPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)
        )

    def forward(self, images):
        return self.classifier(self.features(images))


labels = torch.randint(10, (4000,))
patterns = torch.randn(10, 1, 28, 28)
images = patterns[labels] + 0.8 * torch.randn(4000, 1, 28, 28)
loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)

model = LeNet()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for epoch in range(1000):
    right = 0
    for batch, wanted in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REPAIRED):
            scores = model(batch)
            loss = nn.functional.cross_entropy(scores, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += int((scores.argmax(1) == wanted).sum())
    print(f"epoch {epoch}: {right / 4000:.1%} right", flush=True)
