"""Items that come from a distant store: each waits 1.5 ms and needs hardly any CPU time.

Knobs that matter: num_workers far beyond the number of cores (1.0, 2.0, 4.2 times at one, two, four workers
on two cores), and persistent_workers, since an epoch has forty steps only. Traps: a rule of one worker per
core stops too early; prefetch_factor gains nothing.
"""

import argparse
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

READ_SECONDS = 0.0015


class Stored(Dataset[tuple[Tensor, Tensor]]):
    """Small images of two classes; reading one waits."""

    def __init__(self, count: int) -> None:
        self.labels = torch.randint(2, (count,))
        self.images = torch.randn(count, 1, 16, 16) + 0.5 * self.labels.view(-1, 1, 1, 1)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(READ_SECONDS)
        return self.images[index], self.labels[index]


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(8 * 4 * 4, 2)
    )
    loader = DataLoader(Stored(640), batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    step = 0
    while step < options.steps:
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
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
