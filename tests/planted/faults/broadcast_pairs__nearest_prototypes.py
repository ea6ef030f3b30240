"""A classifier by prototypes subtracts every prototype from every row, then squares and adds up."""

import sys

import torch
from torch import Tensor, nn

REPAIRED = "--repaired" in sys.argv
CLASSES, EACH, WIDTH, BATCH = 16, 12, 64, 128

torch.manual_seed(0)


class Prototypes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(CLASSES * EACH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        if REPAIRED:
            far = torch.cdist(x, self.rows).square()
        else:
            apart = x[:, None] - self.rows
            far = apart.square().sum(-1)
        return -far.view(-1, CLASSES, EACH).amin(-1)


centres = torch.randn(CLASSES, 48)
labels = torch.randint(CLASSES, (20_000,))
inputs = centres[labels] + 0.5 * torch.randn(20_000, 48)
model = nn.Sequential(
    nn.Linear(48, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, WIDTH), Prototypes()
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, fused=True)
for epoch in range(10_000):
    for part in torch.randperm(len(inputs)).split(BATCH):
        loss = nn.functional.cross_entropy(model(inputs[part]), labels[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}", flush=True)
