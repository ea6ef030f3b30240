"""Gradients of four small batches are added up before each update."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(256, 8), torch.randint(0, 3, (256,)))
loader = DataLoader(data, batch_size=8, shuffle=True, drop_last=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(2):
    total = 0.0
    for index, (inputs, labels) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(inputs), labels) / 4
        loss.backward()
        total += loss.item()
        if index % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
            print(f"{total:.6f}")
            total = 0.0
