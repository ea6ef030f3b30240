"""The first epoch reads every file from a remote disk, a third of a short run (--steps-planned 200)."""

import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
REMOTE_S = 0.0012  # for the first read of a file
COUNT = 1024


class Recordings(Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.glob("*.bin"))
        self.local = {file.name for file in self.files} if REPAIRED else set()

    def read(self, file):
        if file.name not in self.local:  # as a page cache would, without a remote disk
            time.sleep(REMOTE_S)
            self.local.add(file.name)
        return torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.float32)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.read(self.files[index]), index % 5


def write_recordings(folder):
    generator = torch.Generator().manual_seed(0)
    for index in range(COUNT):
        values = torch.randn(256, generator=generator) + 0.2 * (index % 5)
        (folder / f"{index:05d}.bin").write_bytes(values.numpy().tobytes())


with tempfile.TemporaryDirectory() as name:
    torch.manual_seed(0)
    write_recordings(Path(name))
    loader = DataLoader(Recordings(Path(name)), batch_size=32, shuffle=True)
    model = nn.Sequential(
        nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
        nn.Linear(1024, 5),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, fused=True)
    for epoch in range(1000):
        for values, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(values), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
