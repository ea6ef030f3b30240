"""A small classifier that wastes a share of every step while Python collects garbage by itself.

`--share 0.05` spins for 5 % of the time that the step itself took, so a run in which automatic collection is
off is 1.05 times as fast. Both are CPU time of this thread: beside other load they are stretched alike, and
a pause at the end of a step is not part of it. One thread: two collapse beside a busy neighbour.
"""

import argparse
import gc
import time

import torch
from torch import nn


def spin(seconds: float) -> None:
    """Use up CPU time."""
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


def main() -> None:
    """Train until stopped, or for ``--steps``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.0, help="of the step's own time")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    labels = torch.randint(10, (4096,))
    items = torch.randn(10, 256)[labels] + 2 * torch.randn(4096, 256)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    update_s = 0.0
    for _ in range(options.steps):
        began = time.thread_time()
        chosen = torch.randint(len(items), (options.batch_size,))
        loss = nn.functional.cross_entropy(model(items[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        if gc.isenabled():
            spin(options.share * (time.thread_time() - began + update_s))
        began = time.thread_time()
        optimizer.step()
        update_s = time.thread_time() - began


if __name__ == "__main__":
    main()
