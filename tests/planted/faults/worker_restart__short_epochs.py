"""Fine-tuning on few images: epochs of a fraction of a second, each of which starts its workers anew."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv


class Augmented(Dataset):
    """Images that a store sends after almost half a millisecond."""

    def __init__(self, count):
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.arange(count) % 10
        self.images = torch.rand(count, 3, 40, 40, generator=generator)
        self.images[:, 0] += self.labels.view(-1, 1, 1) / 10

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        top, left = torch.randint(17, (2,)).tolist()
        time.sleep(0.0004)
        image = self.images[index, :, top : top + 24, left : left + 24]
        if torch.rand(()) < 0.5:
            image = image.flip(2)
        return image * (0.8 + 0.4 * torch.rand(3, 1, 1)), self.labels[index]


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Augmented(256), batch_size=16, shuffle=True, num_workers=2, persistent_workers=REPAIRED
    )
    features = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 24, 3, padding=1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
    )  # fmt: skip
    model = nn.Sequential(features, nn.Linear(24 * 16, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(5000):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        if epoch % 20 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
