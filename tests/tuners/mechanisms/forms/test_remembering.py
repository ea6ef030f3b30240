"""Models that keep a state are told from those that only fill a cache."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.form import Source
from advisor.tuners.mechanisms.forms.remembering import refuse_memory


class Counting(nn.Module):
    """Keeps a mean of its inputs in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, inputs: Tensor) -> Tensor:
        """Less the mean."""
        self.mean: Tensor = 0.9 * self.mean + 0.1 * inputs
        return inputs - self.mean


class Recurrent(nn.Module):
    """Keeps its state as an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 3)
        self.state: Tensor | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """The next state."""
        self.state = self.cell(inputs, self.state)
        return self.state


class Caching(nn.Module):
    """Makes a table when it is called first."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Tensor | None = None
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        """By the table."""
        self.calls += 1
        if self.table is None:
            self.table = torch.arange(3.0)
        return inputs * self.table


class Doubling(nn.Module):
    """Works in place."""

    def forward(self, inputs: Tensor) -> Tensor:
        """The inputs themselves."""
        return inputs.mul_(2)


@pytest.mark.parametrize(
    ("model", "named"), [(Counting(), "mean"), (Recurrent(), "state"), (Doubling(), "its inputs")]
)
def test_what_a_forward_changes_is_named(model: nn.Module, named: str, tmp_path: Path) -> None:
    inputs = torch.ones(1, 3)
    with pytest.raises(Refused, match=named):
        refuse_memory(Source(model.eval(), ((inputs,), {}), tmp_path))
    assert torch.equal(inputs, torch.ones(1, 3))


@pytest.mark.parametrize("model", [Caching(), nn.BatchNorm1d(3), nn.Linear(3, 3)])
def test_a_cache_is_no_memory(model: nn.Module, tmp_path: Path) -> None:
    refuse_memory(Source(model.eval(), ((torch.full((1, 3), float("nan")),), {}), tmp_path))
