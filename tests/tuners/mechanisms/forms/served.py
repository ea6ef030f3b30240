"""A small model with all that forms take, and the forms of it."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from advisor.profiles.events import Inputs
from advisor.tuners.mechanisms.forms.form import Source


class Small(nn.Module):
    """Convolution, normalization, linear layers; a nested output, and an optional argument."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.normalization = nn.BatchNorm2d(8)
        self.hidden = nn.Linear(8 * 64, 32)
        self.output = nn.Linear(32, 10)

    def forward(self, pictures: Tensor, scale: Tensor | None = None) -> dict[str, Any]:
        """Logits, and the features that they are made of."""
        features = torch.relu(self.normalization(self.convolution(pictures))).flatten(1)
        features = torch.relu(self.hidden(features))
        logits = self.output(features)
        return {"logits": logits if scale is None else logits * scale, "features": (features,)}


class Wide(nn.Module):
    """Linear layers with large weights of one sign under inputs that are never negative: sums saturate."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, inputs: Tensor) -> Tensor:
        """Sixteen values."""
        output: Tensor = self.layers(inputs)
        return output


def a_source(folder: Path, *, samples: int = 16) -> Source:
    """The small model with as many samples to calibrate with."""
    generator = torch.Generator().manual_seed(1)
    calls: list[Inputs] = [
        ((torch.rand(1, 3, 8, 8, generator=generator),), {"scale": torch.ones(1)}) for _ in range(samples + 1)
    ]
    return Source(Small().eval(), calls[0], folder, calls[1:])


def a_wide_source(folder: Path) -> Source:
    """The wide one."""
    generator = torch.Generator().manual_seed(1)
    calls: list[Inputs] = [((torch.rand(32, 256, generator=generator),), {}) for _ in range(9)]
    return Source(Wide().eval(), calls[0], folder, calls[1:])
