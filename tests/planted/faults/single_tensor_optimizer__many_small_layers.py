"""Adam is told to update parameter by parameter (foreach=False) in a network of many small layers."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)

    def forward(self, x):
        return x + self.outer(torch.relu(self.inner(self.norm(x))))


features = torch.randn(8192, 24)
target = (features[:, :8] * features[:, 8:16]).sum(1, keepdim=True)
loader = DataLoader(TensorDataset(features, target), batch_size=16, shuffle=True)

model = nn.Sequential(nn.Linear(24, 24), *(Residual(24) for _ in range(16)), nn.Linear(24, 1))
form = {"fused": True} if REPAIRED else {"foreach": False}
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **form)
for epoch in range(2000):
    total = 0.0
    for batch, wanted in loader:
        loss = nn.functional.mse_loss(model(batch), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.4f}", flush=True)
