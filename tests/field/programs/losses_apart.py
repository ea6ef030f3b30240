"""Six tasks share a trunk; the loss of each goes backward on its own."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
TASKS = 6


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv1d(8, 24, 5, padding=2), nn.GELU(), nn.Conv1d(24, 24, 5, padding=2), nn.GELU(),
            nn.Conv1d(24, 24, 5, padding=2), nn.GELU(),
        )  # fmt: skip
        self.heads = nn.ModuleList(nn.Linear(24, 1) for _ in range(TASKS))

    def forward(self, signal: torch.Tensor) -> list[torch.Tensor]:
        hidden = self.trunk(signal).mean(2)
        return [head(hidden) for head in self.heads]


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    signals = torch.randn(512, 8, 64)
    targets = torch.stack([signals[:, task].amax(1) for task in range(TASKS)], 1)
    model = Shared()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(3000):
        for rows in torch.randperm(len(signals)).split(8):
            answers = model(signals[rows])
            losses = [
                nn.functional.mse_loss(answer.squeeze(1), targets[rows, task])
                for task, answer in enumerate(answers)
            ]
            optimizer.zero_grad()
            if REPAIRED:
                torch.stack(losses).sum().backward()
            else:
                for loss in losses:
                    loss.backward(retain_graph=True)
            optimizer.step()


main()
