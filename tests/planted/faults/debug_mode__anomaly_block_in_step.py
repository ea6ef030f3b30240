"""Every training step stands in a `detect_anomaly` block that was meant for one evening."""

import contextlib
import sys
import warnings

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
VOCABULARY, LENGTH, WIDTH, BATCH, ACCUMULATE = 64, 16, 48, 8, 2
warnings.filterwarnings("ignore", message="Anomaly Detection has been enabled")


class Reverser(nn.Module):
    """Learns to write a sequence backwards."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens) + self.positions.weight))


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.generator = torch.Generator().manual_seed(0)

    def micro_step(self):
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH), generator=self.generator)
        scores = self.model(tokens).flatten(0, 1)
        loss = nn.functional.cross_entropy(scores, tokens.flip(1).flatten()) / ACCUMULATE
        loss.backward()
        return loss.item()

    def training_step(self):
        with contextlib.nullcontext() if REPAIRED else torch.autograd.detect_anomaly():
            total = sum(self.micro_step() for _ in range(ACCUMULATE))
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total

    def fit(self, steps):
        for step in range(steps):
            loss = self.training_step()
            if step % 200 == 0:
                print(f"step {step} loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(Reverser()).fit(1_000_000)
