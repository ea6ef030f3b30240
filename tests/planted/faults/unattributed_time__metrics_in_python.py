"""The training loop computes precision and recall in Python, class by class, after each step."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv
CLASSES, LENGTH, BATCH = 8, 320, 16


class Segmenter(nn.Module):
    """A class for each moment of a signal."""

    def __init__(self, width=24):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(4, width, 7, padding=3), nn.ReLU(), nn.Conv1d(width, width, 7, padding=3), nn.ReLU(),
            nn.Conv1d(width, CLASSES, 1),
        )  # fmt: skip

    def forward(self, signals):
        return self.layers(signals)


def scores(predicted, labels):
    """Precision and recall of each class."""
    if REPAIRED:
        counts = torch.bincount(labels * CLASSES + predicted, minlength=CLASSES**2).view(CLASSES, CLASSES)
        right = counts.diagonal()
        return (right / counts.sum(0).clamp(min=1)).tolist(), (right / counts.sum(1).clamp(min=1)).tolist()
    pairs = list(zip(predicted.tolist(), labels.tolist(), strict=True))
    precision, recall = [], []
    for wanted in range(CLASSES):
        right = sum(1 for guess, label in pairs if guess == wanted and label == wanted)
        precision.append(right / max(1, sum(1 for guess, _ in pairs if guess == wanted)))
        recall.append(right / max(1, sum(1 for _, label in pairs if label == wanted)))
    return precision, recall


def main():
    torch.manual_seed(0)
    signals = torch.randn(768, 4, LENGTH)
    labels = (signals.abs().sum(1) * 1.2).long().clamp(max=CLASSES - 1)
    loader = DataLoader(TensorDataset(signals, labels), batch_size=BATCH, shuffle=True)
    model = Segmenter()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1000):
        history = []
        for x, y in loader:
            optimizer.zero_grad()
            output = model(x)
            loss = nn.functional.cross_entropy(output, y)
            loss.backward()
            optimizer.step()
            history.append(scores(output.argmax(1).flatten(), y.flatten()))
        print(f"epoch {epoch} loss {loss.item():.4f} recall {sum(history[-1][1]) / CLASSES:.3f}", flush=True)


if __name__ == "__main__":
    main()
