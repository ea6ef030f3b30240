"""A table that lies in memory goes to the network row by row through a loader."""

import sys

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

REPAIRED = "--repaired" in sys.argv


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    features = torch.randn(100_000, 24)
    table = TensorDataset(features, features[:, :4].sum(1).sign().clamp(min=0), torch.rand(len(features)))
    if REPAIRED:
        batches = BatchSampler(RandomSampler(table), 512, drop_last=True)
        loader = DataLoader(table, sampler=batches, batch_size=None)
    else:
        loader = DataLoader(table, batch_size=512, shuffle=True, drop_last=True)
    model = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(1000):
        for rows, clicked, weight in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(rows).squeeze(1), clicked, weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()
