"""The model and its optimizer are saved after every three steps, for fear of a crash."""

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
SAVE_EVERY = 1000 if REPAIRED else 3
WIDTH, BATCH = 768, 48


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 32)
        )
        self.decoder = nn.Sequential(
            nn.Linear(32, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)
        )

    def forward(self, signals):
        return self.decoder(self.encoder(signals))


class Trainer:
    def __init__(self, folder):
        torch.manual_seed(0)
        self.folder = folder
        self.model = Autoencoder()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.LinearLR(self.optimizer, total_iters=100)
        basis = torch.randn(16, WIDTH)
        self.signals = torch.randn(8192, 16) @ basis / 4

    def save(self, step):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": step}
        torch.save(state, self.folder / "last.pt")

    def fit(self, steps):
        for step in range(1, steps + 1):
            batch = self.signals[torch.randint(len(self.signals), (BATCH,))]
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(batch), batch)
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            if step % SAVE_EVERY == 0:
                self.save(step)
            if step % 200 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        Trainer(Path(name)).fit(1_000_000)
