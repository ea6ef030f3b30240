"""A recommender: large embedding tables, of which a step touches few rows, below a small perceptron.

Knobs that matter: batch_size (4.9 times at sixteen times the batch), since every step updates all tables
whatever the batch, and optimizer_implementation, for the same reason. Traps: amp at the small batch (0.92
to 0.97); optimizer_implementation=foreach, which gains nothing on a CPU (0.84 to 1.07).
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

TABLES = 8
ROWS = 20_000
WIDTH = 16
DENSE = 13


class Recommender(nn.Module):
    """Embeddings and dense features, their products, and a perceptron over all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, WIDTH) for _ in range(TABLES))
        self.bottom = nn.Sequential(nn.Linear(DENSE, 64), nn.ReLU(), nn.Linear(64, WIDTH), nn.ReLU())
        pairs = (TABLES + 1) * TABLES // 2
        self.top = nn.Sequential(nn.Linear(WIDTH + pairs, 128), nn.ReLU(), nn.Linear(128, 1))
        self.register_buffer("upper", torch.triu_indices(TABLES + 1, TABLES + 1, 1), persistent=False)

    def forward(self, dense: Tensor, rows: Tensor) -> Tensor:
        """Features of (batch, DENSE) and row numbers of (batch, TABLES) to one score each."""
        bottom = self.bottom(dense)
        looked_up = [table(rows[:, place]) for place, table in enumerate(self.tables)]
        vectors = torch.stack([bottom, *looked_up], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.upper[0], self.upper[1]]
        scores: Tensor = self.top(torch.cat([bottom, products], dim=1))
        return scores.squeeze(1)


def clicks(count: int) -> TensorDataset:
    """Rows that follow a skewed distribution, and a click that depends on the dense features."""
    dense = torch.randn(count, DENSE)
    rows = (ROWS * torch.rand(count, TABLES) ** 3).long()
    return TensorDataset(dense, rows, (dense.sum(1) + torch.randn(count) > 0).float())


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=128)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = Recommender()
    loader = DataLoader(clicks(65_536), batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    step = 0
    while step < options.steps:
        for dense, rows, clicked in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(dense, rows), clicked)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            step += 1
            if step == options.steps:
                break


if __name__ == "__main__":
    main()
