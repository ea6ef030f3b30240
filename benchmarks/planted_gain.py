"""A training script whose step wastes a known part of its time; ``planted_cells`` says how much.

A step waits for items, updates many small tensors one by one, touches pages of memory that is given back at
once, and thinks. Nothing of it is work that another machine would share out differently.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable

BEGAN = time.perf_counter()

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

FEATURES = 16
SMALL = 8  # floats of a tensor that is updated by itself: calls cost, not what is computed
BLOCK = 2**24  # floats, 64 MiB: glibc maps blocks above 32 MiB anew each time, however often they are used
PAGE = 1024  # floats


class Items(Dataset[tuple[Tensor, Tensor]]):
    """Random items; each comes after a wait."""

    def __init__(self, count: int, wait_s: float) -> None:
        self.features = torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(0))
        self.labels = (self.features.sum(1) > 0).long()
        self.wait_s = wait_s

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if self.wait_s:
            time.sleep(self.wait_s)
        return self.features[index], self.labels[index]


def think(seconds: float) -> None:
    """Use that much time of the processor."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def small_tensors(count: int) -> list[Tensor]:
    """As many parameters of their own."""
    return [torch.zeros(SMALL, requires_grad=True) for _ in range(count)]


def nothing_of(tensors: list[Tensor]) -> Tensor | float:
    """Zero, for which each of them gets a gradient."""
    return 0.0 * torch.cat(tensors).sum() if tensors else 0.0


def touch(pages: int) -> None:
    """Write to as many pages of memory, in blocks that are given back one after the other."""
    for first in range(0, pages, BLOCK // PAGE):
        torch.empty(BLOCK)[: (pages - first) * PAGE : PAGE] = 0.0


def calibrate(tensors: int, pages: int) -> dict[str, float]:
    """Seconds of a step of so many tensors, one by one and fused, and of so many pages."""

    def of_tensors(fused: bool) -> float:
        parameters = small_tensors(tensors)
        optimizer = torch.optim.AdamW(parameters, fused=fused)

        def step() -> None:
            loss = torch.zeros((), requires_grad=True) + nothing_of(parameters)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        return fastest(step)

    return {
        "one_by_one_s": of_tensors(fused=False) if tensors else 0.0,
        "fused_s": of_tensors(fused=True) if tensors else 0.0,
        "pages_s": fastest(lambda: touch(pages)),
    }


def fastest(function: Callable[[], None]) -> float:
    """Seconds of the fastest of ten calls: others can only be disturbed."""
    times = []
    for _ in range(10):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Train, or tell what things cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=float, default=0.0, help="seconds until the data is there")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds for which a batch waits for items")
    parser.add_argument("--tensors", type=int, default=0, help="small ones, updated one by one")
    parser.add_argument("--pages", type=int, default=0, help="of memory that are touched")
    parser.add_argument("--think", type=float, default=0.0, help="seconds of the processor")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=600, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--calibrate", action="store_true", help="only tell what things cost")
    options = parser.parse_args()
    torch.set_num_threads(1)  # two would wait for each other, for a time that nobody knows
    if options.calibrate:
        json.dump(calibrate(options.tensors, options.pages), sys.stdout)
        return

    time.sleep(max(0.0, options.start - (time.perf_counter() - BEGAN)))
    torch.manual_seed(0)
    items = Items(options.steps * options.batch_size, options.wait / options.batch_size)
    loader = DataLoader(items, options.batch_size, shuffle=True)
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 2))
    tensors = small_tensors(options.tensors)
    optimizer = torch.optim.AdamW([*model.parameters(), *tensors], lr=1e-3)
    for epoch in range(options.epochs):
        total = 0.0
        for features, labels in loader:
            loss = nn.functional.cross_entropy(model(features), labels) + nothing_of(tensors)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            touch(options.pages)
            think(options.think)
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f}", flush=True)


if __name__ == "__main__":
    main()
