"""The training loop counts a confusion matrix in Python, label by label, after each step."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv
CLASSES, LENGTH, BATCH = 6, 96, 32


class Segmenter(nn.Module):
    """A class for each moment of a signal."""

    def __init__(self, width=48):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(4, width, 7, padding=3), nn.ReLU(), nn.Conv1d(width, width, 7, padding=3), nn.ReLU(),
            nn.Conv1d(width, CLASSES, 1),
        )  # fmt: skip

    def forward(self, signals):
        return self.layers(signals)


def count(matrix, predicted, labels):
    if REPAIRED:
        matrix += torch.bincount(labels.flatten() * CLASSES + predicted.flatten(), minlength=CLASSES**2).view(
            CLASSES, CLASSES
        )
        return
    for row, truth in zip(predicted.tolist(), labels.tolist(), strict=True):
        for guessed, label in zip(row, truth, strict=True):
            matrix[label][guessed] = matrix[label][guessed] + 1


def main():
    torch.manual_seed(0)
    signals = torch.randn(1024, 4, LENGTH)
    labels = (signals.abs().sum(1) * 1.2).long().clamp(max=CLASSES - 1)
    loader = DataLoader(TensorDataset(signals, labels), batch_size=BATCH, shuffle=True)
    model = Segmenter()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1000):
        matrix = torch.zeros(CLASSES, CLASSES, dtype=torch.long)
        matrix = matrix if REPAIRED else matrix.tolist()
        for x, y in loader:
            optimizer.zero_grad()
            output = model(x)
            loss = nn.functional.cross_entropy(output, y)
            loss.backward()
            optimizer.step()
            count(matrix, output.argmax(1), y)
        right = sum(int(matrix[k][k]) for k in range(CLASSES)) / (len(signals) * LENGTH)
        print(f"epoch {epoch} loss {loss.item():.4f} accuracy {right:.3f}", flush=True)


if __name__ == "__main__":
    main()
