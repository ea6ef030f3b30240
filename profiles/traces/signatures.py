"""What operators were called with: shapes, types and place in the autograd graph, from a trace's details."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.profiles.traces.trace import Numbers, Trace, narrow

DTYPES = {
    "float": "float32", "double": "float64", "c10::BFloat16": "bfloat16", "c10::Half": "float16",
    "long int": "int64", "long": "int64", "int": "int32", "short int": "int16", "signed char": "int8",
    "unsigned char": "uint8", "bool": "bool", "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128", "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
}  # fmt: skip
"""Names of types in traces, and in torch."""

SIZES = {
    "float64": 8, "int64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4, "float16": 2,
    "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip
"""Bytes of an element."""

_LARGEST, _MOST_DIMENSIONS = 2**48, 16  # beyond that a file is broken


@dataclass(frozen=True)
class Signature:
    """Inputs of a call: a shape and a type for each argument, lists of tensors laid out flat.

    ``dtypes`` holds ``None`` for what is no tensor. ``concrete`` are the arguments that are no tensors, as
    text, where they were looked up: calls with the same shapes may differ in them.
    """

    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str | None, ...] = ()
    concrete: tuple[str, ...] = ()

    @property
    def dtype(self) -> str | None:
        """Type of the first tensor."""
        return next((dtype for dtype in self.dtypes if dtype), None)

    @property
    def tensors(self) -> list[tuple[tuple[int, ...], str]]:
        """Shapes and types of the tensors alone."""
        return [(shape, dtype) for shape, dtype in zip(self.shapes, self.dtypes, strict=True) if dtype]

    @property
    def elements(self) -> int:
        """Elements of the largest tensor: what broadcasting makes of all of them."""
        return max((elements(shape) for shape, _ in self.tensors), default=0)

    @property
    def input_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(elements(shape) * SIZES[dtype] for shape, dtype in self.tensors)


@dataclass(frozen=True)
class Signatures:
    """Signatures of a trace, and for each of its details the number of its own."""

    distinct: tuple[Signature, ...]
    number: Numbers


def elements(shape: tuple[int, ...]) -> int:
    """How many elements a tensor of this shape has."""
    product = 1
    for size in shape:
        product *= size
    return product


def signatures_of(trace: Trace, wanted: Numbers) -> Signatures:
    """Signatures of these details; the last entry stands for the detail -1."""
    size = len(trace.details) + 1
    number = np.zeros(size, dtype=np.int32)
    chosen = np.zeros(size, dtype=np.bool_)
    chosen[wanted] = True
    known: dict[str, int] = {}
    met: dict[tuple[int, int], int] = {}  # a reader may give one list to many details: those are quick
    distinct = [Signature()]
    for position in np.flatnonzero(chosen[:-1]).tolist():
        get = trace.details[position].get
        dims, types = get("Input Dims"), get("Input type")
        found = met.get((id(dims), id(types)))
        if found is None:
            found = known.setdefault(repr((dims, types)), len(distinct))
            met[id(dims), id(types)] = found
            if found == len(distinct):
                distinct.append(signature(trace.details[position]))
        number[position] = found
    return Signatures(tuple(distinct), narrow(number))


def signature(detail: dict[str, Any]) -> Signature:
    """What one detail says of the inputs."""
    dims, types = detail.get("Input Dims"), detail.get("Input type")
    shapes: list[tuple[int, ...]] = []
    dtypes: list[str | None] = []
    if not isinstance(dims, list) or not isinstance(types, list):
        return Signature()
    for dim, kind in zip(dims, types, strict=False):
        if isinstance(dim, list) and dim and isinstance(dim[0], list):
            shapes += map(_shape, dim)
            dtypes += [None] * len(dim)  # types of a list's tensors are not recorded
        else:
            shapes.append(_shape(dim))
            dtypes.append(DTYPES.get(kind) if isinstance(kind, str) else None)
    return Signature(tuple(shapes), tuple(dtypes))


def _shape(dim: object) -> tuple[int, ...]:
    """A shape; that of a number for what is none."""
    if isinstance(dim, list) and all(isinstance(size, int) and 0 <= size < _LARGEST for size in dim):
        return tuple(dim[:_MOST_DIMENSIONS])
    return ()


def concrete(detail: dict[str, Any]) -> tuple[str, ...]:
    """The arguments that are no tensors, as text."""
    listed = detail.get("Concrete Inputs")
    return tuple(str(each) for each in listed) if isinstance(listed, list) else ()
