"""The running loss is summed as a tensor, so every step's graph stays alive."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)
features = torch.randn(50_000, 64)
labels = (features[:, :32].sum(1) > features[:, 32:].sum(1)).long()
loader = DataLoader(TensorDataset(features, labels), batch_size=64, shuffle=True)

model = nn.Sequential(
    nn.Linear(64, 1024), nn.ReLU(), nn.Dropout(0.1), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 2)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
total_loss, steps = 0.0, 0
for epoch in range(1000):
    for batch, wanted in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), wanted)
        loss.backward()
        optimizer.step()
        total_loss += loss.detach() if REPAIRED else loss
        steps += 1
    print(f"epoch {epoch}: mean loss so far {float(total_loss) / steps:.4f}", flush=True)
