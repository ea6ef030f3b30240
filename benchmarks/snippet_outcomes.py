"""What came of a snippet for a faster or smaller model, the models it is run on, and what compares both."""

import io
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

ROUNDS = 41  # of ABBA; a median of 82 ratios
Called = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Outcome:
    """What one snippet did.

    Attributes:
        case: What the snippet sets out to do.
        said: Error and warnings, shortened to one line each.
        error: Relative RMS difference of the outputs (0 where equal); None where there are none.
        size: Bytes saved over those of the model as it was; None where it is not saved.
        speed: Median of its speed over the model as it was, with quartiles; None where not timed.
        note: What else is seen.
    """

    case: str
    said: list[str]
    error: float | None = None
    size: float | None = None
    speed: tuple[float, float, float] | None = None
    note: str = ""


def mlp() -> nn.Module:
    """Linear layers 512-2048-2048-10."""
    return nn.Sequential(
        nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)
    )


def convolutions() -> nn.Module:
    """Two convolutions with batch norm on 3 x 64 x 64 images."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


def saved_bytes(model: nn.Module) -> int:
    """Size of the saved state."""
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return file.tell()


def difference(new: torch.Tensor, old: torch.Tensor) -> float:
    """Relative RMS difference of two outputs."""
    return float((new - old).norm() / old.norm())


def speed(new: Called, old: Called, batch: torch.Tensor) -> tuple[float, float, float]:
    """Speed of ``new`` over ``old``: median and quartiles over ABBA rounds, after warming up."""
    for _ in range(5):
        new(batch), old(batch)
    ratios = []
    for _ in range(ROUNDS):
        times = []
        for function in (old, new, new, old):
            begin = time.perf_counter()
            function(batch)
            times.append(time.perf_counter() - begin)
        ratios += [times[0] / times[1], times[3] / times[2]]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return middle, low, high
