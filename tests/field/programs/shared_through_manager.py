"""Workers share what they have decoded through a dictionary of a manager."""

import multiprocessing
import sys

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
COUNT = 256


class Pictures(Dataset[Tensor]):
    def __init__(self, kept) -> None:
        self.kept = kept

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Tensor:
        if REPAIRED:
            return self.kept[index].float() / 255
        raw = bytearray(self.kept[index])[: 3 * 64 * 64]
        return torch.frombuffer(raw, dtype=torch.uint8).view(3, 64, 64).float() / 255


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    pictures = torch.randint(256, (COUNT, 3, 64, 64), dtype=torch.uint8)
    if REPAIRED:
        kept = pictures.share_memory_()
    else:
        manager = multiprocessing.get_context("fork").Manager()
        kept = manager.dict({k: pictures[k].numpy().tobytes() * 40 for k in range(COUNT)})
    loader = DataLoader(Pictures(kept), batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)
    layers = nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 1)
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(1000):
        for batch in loader:
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()
