"""A thread of the dataset counts words of what was read, in Python, all the time; items are cheap."""

import sys
import threading
import time
from collections import Counter

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)


class Texts(Dataset):
    """Rows of word numbers, with a histogram of words kept up to date beside."""

    def __init__(self):
        self.rows = torch.randint(0, 500, (20_000, 24))
        self.seen = [row.tolist() for row in self.rows[:2000]]
        self.counts = Counter()
        if not REPAIRED:
            threading.Thread(target=self.count, name="counting", daemon=True).start()

    def count(self):
        while True:
            for words in self.seen:
                for word in words:
                    self.counts[word] += 1
            time.sleep(0.003)  # until more was read

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        return row, row[0] % 4


def main():
    model = nn.Sequential(
        nn.Embedding(500, 64), nn.Flatten(), nn.Linear(24 * 64, 512), nn.ReLU(), nn.Linear(512, 4)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    loader = DataLoader(Texts(), 64, shuffle=True)
    for epoch in range(500):
        for rows, labels in loader:
            loss = nn.functional.cross_entropy(model(rows), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), flush=True)


if __name__ == "__main__":
    main()
