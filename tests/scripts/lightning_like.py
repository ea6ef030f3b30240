"""What a framework does: forward and backward run in a closure inside the optimizer's step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Task(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.decoder = nn.Linear(16, 8)

    def training_step(self, batch):
        return nn.functional.mse_loss(self.decoder(self.encoder(batch[0])), batch[0])


task = Task()
optimizer = torch.optim.Adam(task.parameters(), lr=1e-2)
for batch in DataLoader(TensorDataset(torch.randn(160, 8)), batch_size=16):

    def closure():
        loss = task.training_step(batch)  # noqa: B023
        optimizer.zero_grad()
        loss.backward()
        print(f"{loss.item():.6f}")
        return loss

    optimizer.step(closure=closure)
