"""Word counts are divided by their length, which is zero for an empty text: the loss is NaN from then on."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
TEXTS, WORDS, BATCH = 20_000, 128, 128


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(WORDS, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2)
        )

    def forward(self, counts):
        length = counts.norm(dim=1, keepdim=True)
        if REPAIRED:
            length = length.clamp(min=1.0)
        return self.layers(counts / length)


def main():
    torch.manual_seed(0)
    counts = torch.poisson(torch.full((TEXTS, WORDS), 0.2))
    labels = (counts[:, : WORDS // 2].sum(1) > counts[:, WORDS // 2 :].sum(1)).long()
    counts[::2000] = 0  # some texts are empty
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(1000):
        for rows in torch.randperm(TEXTS).split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(counts[rows]), labels[rows])
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
