"""A classifier is fitted on top of a network that stays as it is, over the same pictures in each epoch."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv


def extractor() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 24), (24, 48), (48, 64)):
        layers += [nn.Conv2d(before, after, 3, 2, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    pictures = torch.randn(1024, 3, 48, 48)
    labels = pictures.mean((1, 2, 3)).gt(0).long()
    backbone = extractor().eval().requires_grad_(False)
    if REPAIRED:
        pictures = torch.cat([backbone(part) for part in pictures.split(64)])
        backbone = nn.Identity()
    loader = DataLoader(TensorDataset(pictures, labels), batch_size=32, shuffle=True)
    head = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2))
    optimizer = torch.optim.AdamW(head.parameters(), 1e-3)
    for _ in range(1000):
        for batch, label in loader:
            features = backbone(batch)
            loss = nn.functional.cross_entropy(head(features), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()
