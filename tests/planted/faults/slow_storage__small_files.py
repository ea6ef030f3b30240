"""Each image is a small file on a slow disk, opened and read again in every epoch."""

import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
SEEK_S = 0.002  # stands for a disk with moving heads
COUNT = 512


def write_images(folder):
    generator = torch.Generator().manual_seed(0)
    for index in range(COUNT):
        image = torch.randint(0, 120, (3, 32, 32), dtype=torch.uint8, generator=generator)
        image[index % 3] += 60
        (folder / f"{index:04d}_{index % 3}.bin").write_bytes(image.numpy().tobytes())


class ImageFolder(Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.glob("*.bin"))
        self.kept = [self.read(file) for file in self.files] if REPAIRED else None

    def read(self, file):
        time.sleep(SEEK_S)
        content = bytearray(file.read_bytes())
        return torch.frombuffer(content, dtype=torch.uint8).view(3, 32, 32), int(file.stem.split("_")[1])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image, label = self.read(self.files[index]) if self.kept is None else self.kept[index]
        return image.float() / 255, label


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_images(folder)
        loader = DataLoader(ImageFolder(folder), batch_size=16, shuffle=True)
        model = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(32, 3),
        )  # fmt: skip
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
        for epoch in range(1000):
            for images, labels in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
            scheduler.step()
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
