"""A frozen backbone is handed to AdamW together with the head that learns."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


class Transfer(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 128, 3, 2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(512, 2048),
            nn.ReLU(),
            nn.Linear(2048, 512),
        )
        layers = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.GELU())]
        self.head = nn.Sequential(*layers, nn.Linear(512, classes))
        for parameter in self.backbone.parameters():
            parameter.requires_grad = False

    def forward(self, images):
        return self.head(self.backbone(images))


labels = torch.randint(5, (2000,))
images = torch.randn(5, 3, 24, 24)[labels] + torch.randn(2000, 3, 24, 24)
loader = DataLoader(TensorDataset(images, labels), batch_size=6, shuffle=True)
model = Transfer()
learning = model.head.parameters() if REPAIRED else model.parameters()
optimizer = torch.optim.AdamW(learning, lr=1e-3, weight_decay=0.05, fused=True)
for epoch in range(1000):
    total = 0.0
    for batch, wanted in loader:
        loss = nn.functional.cross_entropy(model(batch), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.4f}", flush=True)
