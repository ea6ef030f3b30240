"""An autoencoder adds a bias before each batch norm, which subtracts it again."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv

torch.manual_seed(0)


def layer(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, outputs, bias=not REPAIRED), nn.BatchNorm1d(outputs), nn.ReLU())


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(layer(16, 128), layer(128, 128), layer(128, 128), layer(128, 16))
        self.decoder = nn.Sequential(layer(16, 128), layer(128, 128), layer(128, 128), nn.Linear(128, 16))

    def forward(self, x):
        return self.decoder(self.encoder(x))


model = Autoencoder()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, fused=True)
mixing = torch.randn(4, 16) / 2
for step in range(500_000):
    readings = torch.randn(64, 4) @ mixing
    loss = nn.functional.mse_loss(model(readings), readings)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 1000 == 0:
        print(f"step {step}: {loss.item():.5f}", flush=True)
