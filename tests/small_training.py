"""A training program of a few steps under a run's knobs, to compare its losses bit by bit."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from advisor.profiles.events import Run
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.watch import Watch

ROWS = TensorDataset(torch.arange(64.0).reshape(16, 4) / 64)


@contextmanager
def watched(run: Run) -> Iterator[Watch]:
    """A program written inside the block is watched, and the knobs of ``run`` act on it."""
    watch = Watch(run, Clock(lambda step: None))
    watch.install()
    try:
        yield watch
    finally:
        watch.remove()


def losses_of(
    run: Run | None = None, dataset: Any = ROWS, *, epochs: int = 3, set_to_none: bool = True, **loader: Any
) -> list[float]:
    """Losses of every step, with dropout and shuffling: they differ once a random number is drawn more."""
    with watched(run or Run({}, {})) as watch:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        batches = DataLoader(dataset, batch_size=4, shuffle=True, **loader)
        for _ in range(epochs):
            for batch in batches:
                rows = batch[0] if isinstance(batch, list) else batch
                optimizer.zero_grad(set_to_none=set_to_none)
                model(rows).pow(2).mean().backward()
                optimizer.step()
        return watch.losses()
