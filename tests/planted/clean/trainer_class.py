"""A trainer object that now and then evaluates without gradients and every few hundred steps saves."""

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.layers(self.norm(x))


class Trainer:
    def __init__(self, model, train, test, folder, evaluate_every=400, save_every=400):
        self.model, self.train, self.test, self.folder = model, train, test, Path(folder)
        self.evaluate_every, self.save_every = evaluate_every, save_every
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        self.step = 0

    def fit(self, epochs):
        for _ in range(epochs):
            for features, target in self.train:
                self.training_step(features, target)
                self.step += 1
                if self.step % self.evaluate_every == 0:
                    print(f"step {self.step}: test loss {self.evaluate():.4f}", flush=True)
                if self.step % self.save_every == 0:
                    torch.save(self.model.state_dict(), self.folder / "last.pt")

    def training_step(self, features, target):
        loss = nn.functional.huber_loss(self.model(features), target)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        losses = [nn.functional.huber_loss(self.model(x), y).item() for x, y in self.test]
        self.model.train()
        return sum(losses) / len(losses)


def table(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, 40, generator=generator)
    return TensorDataset(features, (features[:, :20] * features[:, 20:]).mean(1, keepdim=True))


torch.manual_seed(0)
network = nn.Sequential(nn.Linear(40, 256), *(Residual(256) for _ in range(3)), nn.Linear(256, 1))
with tempfile.TemporaryDirectory() as place:
    Trainer(
        network,
        DataLoader(table(16_000, 1), batch_size=64, shuffle=True),
        DataLoader(table(512, 2), batch_size=128),
        place,
    ).fit(1000)
