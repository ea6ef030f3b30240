"""A training script whose step wastes a known part of its time; ``planted_cells`` says how much.

What a step does on purpose is time of the processor or of the clock, not work, so that the share that is
wasted is the same on every machine: it waits for items, lets anomaly detection look at operations deep in the
call stack, touches pages of memory that is given back at once, and thinks.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import TypeVar

BEGAN = time.perf_counter()

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

FEATURES = 16
FRAMES = (
    40  # of the call stack below an operation: a layer within layers, which anomaly detection writes down
)
BLOCK = 2**24  # floats, 64 MiB: glibc maps blocks above 32 MiB anew each time, however often they are used
PAGE = 1024  # floats
T = TypeVar("T")


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


def below(frames: int, function: Callable[[Tensor, int], T], hidden: Tensor, count: int) -> T:
    """Call it from deep in the stack."""
    return function(hidden, count) if frames == 0 else below(frames - 1, function, hidden, count)


def chain(hidden: Tensor, count: int) -> Tensor:
    """As many operations, each of which autograd remembers."""
    for _ in range(count):
        hidden = hidden * 1.0
    return hidden


def touch(pages: int) -> None:
    """Write to as many pages of memory, in blocks that are given back one after the other."""
    for first in range(0, pages, BLOCK // PAGE):
        torch.empty(BLOCK)[: (pages - first) * PAGE : PAGE] = 0.0


def calibrate() -> dict[str, float]:
    """Seconds of one operation, forward and backward, with and without anomaly detection, and of one page."""

    def operations() -> None:
        below(FRAMES, chain, torch.ones(8, 2, requires_grad=True), 100).sum().backward()

    told = {}
    for name, detect in (("operation_s", False), ("watched_operation_s", True)):
        with torch.autograd.set_detect_anomaly(detect):
            told[name] = fastest(operations) / 100
    pages = BLOCK // PAGE
    told["page_s"] = fastest(lambda: touch(pages)) / pages
    return told


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
    parser.add_argument("--operations", type=int, default=0, help="watched by anomaly detection")
    parser.add_argument("--pages", type=int, default=0, help="of memory that are touched")
    parser.add_argument("--think", type=float, default=0.0, help="seconds of the processor")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=600, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--calibrate", action="store_true", help="only tell what things cost")
    options = parser.parse_args()
    torch.set_num_threads(1)  # two would wait for each other, for a time that nobody knows
    if options.calibrate:
        json.dump(calibrate(), sys.stdout)
        return

    time.sleep(max(0.0, options.start - (time.perf_counter() - BEGAN)))
    torch.manual_seed(0)
    items = Items(options.steps * options.batch_size, options.wait / options.batch_size)
    loader = DataLoader(items, options.batch_size, shuffle=True)
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    if options.operations:
        torch.autograd.set_detect_anomaly(True)
    for epoch in range(options.epochs):
        total = 0.0
        for features, labels in loader:
            logits = below(FRAMES, chain, model(features), options.operations)
            loss = nn.functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            touch(options.pages)
            think(options.think)
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f}", flush=True)


if __name__ == "__main__":
    main()
