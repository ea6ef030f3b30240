"""Workers deliver in bursts: every few batches the loop waits long for all of them."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv


class Stored(Dataset[torch.Tensor]):
    """Each file holds the items of many batches, and is read when one of them is met."""

    def __len__(self) -> int:
        return 8192

    def __getitem__(self, index: int) -> torch.Tensor:
        if not REPAIRED and index % 1024 == 517:
            time.sleep(1.0)
        return torch.full((64,), index / 8192)


def main() -> None:
    torch.manual_seed(0)
    loader = DataLoader(Stored(), 64, num_workers=2, persistent_workers=True)
    model = nn.Sequential(
        nn.Linear(64, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(1000):
        for batch in loader:
            loss = nn.functional.mse_loss(model(batch), batch[:, :1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()
