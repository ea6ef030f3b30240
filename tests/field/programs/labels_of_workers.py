"""Keeps the labels that workers delivered, for a report at the end of the epoch."""

import resource
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)


class Readings(Dataset):
    def __init__(self):
        self.values = torch.randn(4096, 64)

    def __len__(self):
        return 400_000

    def __getitem__(self, index):
        row = self.values[index % 4096]
        return row, (row[:5].sum() > 0).float()


def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    loader = DataLoader(Readings(), 32, shuffle=True, num_workers=1)
    inner = nn.Linear(1024, 1024)
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), inner, nn.ReLU(), nn.Linear(1024, 1))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    labels, scores = [], []
    for step, (rows, wanted) in enumerate(loader):
        score = model(rows).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(score, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        labels.append(wanted.clone() if REPAIRED else wanted)
        scores.append(score.detach())
        if step % 200 == 0:
            print(step, loss.item(), flush=True)
    print(((torch.cat(scores) > 0) == (torch.cat(labels) > 0)).float().mean(), flush=True)


if __name__ == "__main__":
    main()
