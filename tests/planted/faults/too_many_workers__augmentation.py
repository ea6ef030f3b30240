"""Twelve workers that compute augmentations share two CPUs with the training."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
WORKERS = 1 if REPAIRED else 12


class Augmented(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.arange(count) % 10
        self.images = torch.rand(count, 3, 48, 48, generator=generator)
        self.images[:, 0] += self.labels.view(-1, 1, 1) / 10

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        angle = (torch.rand(()) - 0.5).item()
        turn = torch.tensor([[1.0, angle, 0.0], [-angle, 1.0, 0.0]])
        grid = nn.functional.affine_grid(turn[None], (1, 3, 32, 32), align_corners=False)
        image = nn.functional.grid_sample(self.images[index][None], grid, align_corners=False)[0]
        return image + 0.05 * torch.randn(3, 32, 32), self.labels[index]


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Augmented(3200), batch_size=32, shuffle=True, num_workers=WORKERS, persistent_workers=True
    )
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 48, 3, padding=1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48 * 16, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(1000):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
