"""bf16 autocast around a LeNet whose layers are too small to gain from it."""

import sys

import torch
from torch import nn

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

model = LeNet()
optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9, fused=True)
for epoch in range(1000):
    right = 0
    for picked in torch.randperm(4000).split(8):
        batch, wanted = images[picked], labels[picked]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REPAIRED):
            scores = model(batch)
            loss = nn.functional.cross_entropy(scores, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += int((scores.argmax(1) == wanted).sum())
    print(f"epoch {epoch}: {right / 4000:.1%} right", flush=True)
