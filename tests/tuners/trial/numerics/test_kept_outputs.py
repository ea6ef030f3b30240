from dataclasses import dataclass

import numpy
import torch
from torch import Tensor

from advisor.tuners.trial.numerics.kept_outputs import comparable, digest, plain


@dataclass
class Boxes:
    """As detectors return them."""

    corners: Tensor
    scores: Tensor | None = None


class Opaque:
    """Holds nothing that is known."""


class Named(Tensor):
    """A tensor with a name of its own."""


def test_fields_of_dataclasses_are_kept() -> None:
    kept = plain([Boxes(torch.ones(2))])
    assert torch.equal(kept[0]["corners"], torch.ones(2)) and kept[0]["scores"] is None


def test_sparse_nested_quantised_and_conjugate_tensors_become_plain_ones() -> None:
    values = torch.tensor([[0.0, 1.0], [0.0, -1.0]])
    rows = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    quantised = torch.quantize_per_tensor(values, 0.5, 0, torch.qint8)
    assert torch.equal(plain(values.to_sparse()), values)
    assert torch.equal(plain(quantised), values)
    assert [len(row) for row in plain(rows)] == [2, 3]
    assert plain(torch.complex(values, values).conj()).numpy().imag[0, 1] == -1
    assert type(plain(values.as_subclass(Named))) is Tensor


def test_inputs_of_any_layout_have_names() -> None:
    values = torch.eye(3)
    rows = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    assert digest(values.to_sparse()) == digest(values.to_sparse())
    assert digest(rows) != digest(values)


def test_arrays_pictures_and_other_objects_have_names_by_their_content() -> None:
    values = numpy.arange(6.0)
    assert digest({"x": values}) == digest({"x": values.copy()}) != digest({"x": values + 1})
    assert digest(values.reshape(2, 3)) != digest(values.reshape(3, 2))
    assert digest(Boxes(torch.ones(2))) == digest(Boxes(torch.ones(2))) != digest(Boxes(torch.zeros(2)))
    assert digest((None, 1)) != digest((1, None)) and digest(lambda: 1) == digest(lambda: 2)


def test_names_of_types_alone_cannot_be_compared() -> None:
    assert not comparable(plain({"boxes": [Opaque()], "more": None}))
    assert comparable(plain([Opaque(), torch.ones(1)])) and comparable(plain("text"))
