"""Clouds of points, told apart by the same small network at every point and a maximum over all of them.

Knobs that matter: num_workers, since every cloud is turned and scaled at random as it is read, and
num_threads for the network. Trap: both want the same two processors.
"""

import argparse
import math

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

POINTS = 256
KINDS = 4

Cloud = tuple[Tensor, int]


class PointNet(nn.Module):
    """Points in, scores of the kinds out."""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(
            nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128), nn.ReLU(),
            nn.Conv1d(128, 256, 1),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, KINDS))

    def forward(self, points: Tensor) -> Tensor:
        """Points of (batch, 3, POINTS) to scores of (batch, KINDS)."""
        scores: Tensor = self.head(self.each(points).amax(2))
        return scores


class Clouds(Dataset[Cloud]):
    """Ellipsoids of four proportions, each read in another position."""

    def __init__(self, count: int) -> None:
        self.kinds = torch.randint(KINDS, (count,))
        axes = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.3], [1.0, 0.3, 0.3], [1.0, 0.6, 0.2]])
        surface = nn.functional.normalize(torch.randn(count, 4 * POINTS, 3), dim=2)
        self.points = surface * axes[self.kinds, None]

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, index: int) -> Cloud:
        points = self.points[index][torch.randperm(4 * POINTS)[:POINTS]]
        for first, second in ((0, 1), (1, 2), (0, 2)):
            angle = 2 * math.pi * float(torch.rand(()))
            turn = torch.eye(3)
            turn[first, first] = turn[second, second] = math.cos(angle)
            turn[first, second], turn[second, first] = math.sin(angle), -math.sin(angle)
            points = points @ turn
        scaled = points * (0.8 + 0.4 * torch.rand(())) + 0.02 * torch.randn(POINTS, 3)
        return scaled.T.contiguous(), int(self.kinds[index])


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = PointNet()
    loader = DataLoader(Clouds(1024), batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    step = 0
    while step < options.steps:
        for points, kinds in loader:
            loss = nn.functional.cross_entropy(model(points), kinds)
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
