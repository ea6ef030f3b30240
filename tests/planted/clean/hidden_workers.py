"""A perceptron on records that take a while to fetch; two workers that stay alive hide the waiting."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Records(Dataset):
    """Each record comes from a store that answers after a tenth of a millisecond."""

    def __init__(self, count):
        generator = torch.Generator().manual_seed(0)
        self.features = torch.randn(count, 128, generator=generator)
        self.labels = (self.features[:, :64].sum(1) > self.features[:, 64:].sum(1)).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        time.sleep(0.0001)
        return self.features[index], self.labels[index]


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Records(6400), batch_size=64, shuffle=True, num_workers=2, persistent_workers=True, prefetch_factor=4
    )
    model = nn.Sequential(
        nn.Linear(128, 2048),
        nn.ReLU(),
        nn.Linear(2048, 2048),
        nn.ReLU(),
        nn.Linear(2048, 1024),
        nn.ReLU(),
        nn.Linear(1024, 2),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(1000):
        total = 0.0
        for features, labels in loader:
            loss = nn.functional.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.4f}", flush=True)


if __name__ == "__main__":
    main()
