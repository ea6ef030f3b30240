"""The whole network computes in float64 because the table came out of numpy that way."""

import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)
rng = np.random.default_rng(0)
table = rng.normal(size=(6400, 128))
target = np.tanh(table @ rng.normal(size=(128, 1)) / 8) + 0.05 * rng.normal(size=(6400, 1))

features, values = torch.from_numpy(table), torch.from_numpy(target)
model = nn.Sequential(
    nn.Linear(128, 768),
    nn.ReLU(),
    nn.Linear(768, 768),
    nn.ReLU(),
    nn.Linear(768, 1),
)
if REPAIRED:
    features, values = features.float(), values.float()
else:
    model = model.double()  # "expected scalar type Float but found Double" went away with this

loader = DataLoader(TensorDataset(features, values), batch_size=64, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

for epoch in range(1000):
    total = 0.0
    for batch, wanted in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch), wanted)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: mse {total / len(loader):.4f}", flush=True)
