from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from advisor.profiles.events import Inputs
from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.exporting import exported, fits, restored
from advisor.tuners.mechanisms.forms.form import Source


class Tagger(nn.Module):
    """Of texts with any number of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 8)
        self.output = nn.Linear(8, 4)

    def forward(self, tokens: Tensor) -> tuple[Tensor, None]:
        """Values per token and class, and nothing."""
        return self.output(self.embedding(tokens)), None


class Deciding(nn.Module):
    """Decides by values."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Doubled if positive."""
        return inputs * 2 if inputs.sum() > 0 else inputs


def test_sizes_that_vary_in_the_calibration_are_left_open(tmp_path: Path) -> None:
    calls: list[Inputs] = [((torch.randint(50, (1, length)),), {}) for length in (5, 7, 9)]
    model = Tagger().eval()
    program = exported(Source(model, calls[0], tmp_path, calls[1:]))
    tokens = torch.randint(50, (1, 12))
    assert torch.allclose(program.module()(tokens)[0], model(tokens)[0])


def test_sizes_that_do_not_vary_are_fixed(tmp_path: Path) -> None:
    calls: list[Inputs] = [((torch.randint(50, (1, 5)),), {}) for _ in range(3)]
    program = exported(Source(Tagger().eval(), calls[0], tmp_path, calls[1:]))
    with pytest.raises(AssertionError):
        program.module()(torch.randint(50, (1, 12)))


def test_outputs_get_their_structure_back(tmp_path: Path) -> None:
    call: Inputs = ((torch.randint(50, (1, 5)),), {})
    program = exported(Source(Tagger().eval(), call, tmp_path))
    values = torch.zeros(1, 5, 4)
    output = restored(program, [values])
    assert output[0] is values and output[1] is None


def test_a_model_that_decides_by_values_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"torch\.export: "):
        exported(Source(Deciding(), ((torch.ones(3),), {}), tmp_path))


def test_calls_of_other_types_do_not_fit() -> None:
    ones = torch.ones(1, 3)
    assert fits(((ones,), {}), ((torch.ones(1, 5),), {}))
    assert not fits(((ones,), {}), ((ones.double(),), {}))
    assert not fits(((ones,), {}), ((ones,), {"mask": ones}))
