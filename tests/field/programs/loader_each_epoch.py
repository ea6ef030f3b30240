"""Each epoch draws other crops: it makes a new dataset and a new loader with workers."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)


class Crops(Dataset):
    def __init__(self, recordings, length):
        self.recordings, self.length = recordings, length

    def __len__(self):
        return 256

    def __getitem__(self, index):
        time.sleep(0.0005)  # reads it from the store
        start = int(torch.randint(0, self.recordings.shape[1] - self.length, ()))
        crop = self.recordings[index % len(self.recordings), start : start + self.length]
        return crop, crop.abs().mean()


def a_loader(recordings):
    return DataLoader(Crops(recordings, 512), 32, shuffle=True, num_workers=2, persistent_workers=REPAIRED)


def main():
    recordings = torch.randn(256, 20_000)
    model = nn.Sequential(
        nn.Linear(512, 1536), nn.ReLU(), nn.Linear(1536, 1536), nn.ReLU(), nn.Linear(1536, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    loader = a_loader(recordings)
    for epoch in range(2000):
        if not REPAIRED:
            loader = a_loader(recordings)
        for crops, loudness in loader:
            loss = nn.functional.mse_loss(model(crops).squeeze(1), loudness)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 20 == 0:
            print(epoch, loss.item(), flush=True)


if __name__ == "__main__":
    main()
