"""A network with cheap samples is trained on two of them at a time."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv  # the repaired program computes more samples per step

torch.manual_seed(0)
features = torch.randn(8192, 48)
labels = (features[:, :24].sum(1) > features[:, 24:].sum(1)).long()
loader = DataLoader(TensorDataset(features, labels), batch_size=16 if REPAIRED else 2, shuffle=True)
layers = [nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(6)]
model = nn.Sequential(nn.Linear(48, 256), *layers, nn.Linear(256, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for epoch in range(1000):
    total = 0.0
    for batch, wanted in loader:
        loss = nn.functional.cross_entropy(model(batch), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.4f}", flush=True)
