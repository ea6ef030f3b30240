from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from advisor.profiles.events import Inputs
from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.exporting import exported, fits, fitting, restoring, sizes_of
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
    restore = restoring(program)
    for _ in range(2):
        output = restore([values])
        assert output[0] is values and output[1] is None


class Masked(nn.Module):
    """Of texts with any number of tokens, by named arguments as a tokenizer gives them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 8)

    def forward(self, tokens: Tensor, mask: Tensor, double: bool = False) -> Tensor:
        """The mean of what is not masked."""
        mean: Tensor = (self.embedding(tokens) * mask[..., None]).mean(1)
        return mean * 2 if double else mean


def test_sizes_of_named_arguments_are_left_open_as_well(tmp_path: Path) -> None:
    calls = [a_text(length) for length in (5, 7, 9)]
    model = Masked().eval()
    program = exported(Source(model, calls[0], tmp_path, calls[1:]))
    _, text = a_text(12)
    assert torch.allclose(program.module()(**text), model(**text))


def a_text(length: int, **more: bool) -> Inputs:
    return (), {"tokens": torch.randint(50, (1, length)), "mask": torch.ones(1, length), **more}


def test_a_size_that_is_fixed_and_a_flag_that_differs_do_not_fit(tmp_path: Path) -> None:
    calls = [a_text(5, double=False), a_text(5, double=False)]
    sizes = sizes_of(exported(Source(Masked().eval(), calls[0], tmp_path, calls[1:])))
    assert sizes == [(1, 5), (1, 5)]
    taken = fitting(calls[0], sizes)
    assert taken(calls[1]) == [calls[1][1][name] for name in ("tokens", "mask")]
    assert taken(a_text(6, double=False)) is None
    assert taken(a_text(5, double=True)) is None
    assert taken(a_text(5)) is None


def test_a_size_that_is_open_fits_whatever_it_is(tmp_path: Path) -> None:
    calls = [a_text(length) for length in (5, 7)]
    sizes = sizes_of(exported(Source(Masked().eval(), calls[0], tmp_path, calls[1:])))
    assert sizes == [(1, None), (1, None)] and fitting(calls[0], sizes)(a_text(30))


def test_a_model_that_decides_by_values_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"torch\.export: "):
        exported(Source(Deciding(), ((torch.ones(3),), {}), tmp_path))


def test_calls_of_other_types_do_not_fit() -> None:
    ones = torch.ones(1, 3)
    assert fits(((ones,), {}), ((torch.ones(1, 5),), {}))
    assert not fits(((ones,), {}), ((ones.double(),), {}))
    assert not fits(((ones,), {}), ((ones,), {"mask": ones}))
