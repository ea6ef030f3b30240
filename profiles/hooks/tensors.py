"""The tensors inside whatever a loader delivers or a module is called with."""

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

DEPTH = 8  # deeper nesting is no batch


def each_tensor(value: Any, depth: int = DEPTH) -> Iterator["Tensor"]:
    """Tensors in mappings, lists, tuples and dataclasses, in order."""
    if isinstance(value, tensor_type()):
        yield value
        return
    if depth == 0:
        return
    for part in _parts(value):
        yield from each_tensor(part, depth - 1)


def leading_size(value: Any) -> int:
    """Dimension 0 of the first tensor that has one; 0 without such a tensor."""
    # On every step: no recursion for a plain batch, and no tuple.
    first = value[0] if type(value) in (list, tuple) and value else value
    if isinstance(first, tensor_type()) and first.dim():
        return int(first.size(0))
    sizes = leading_sizes(value)
    return sizes[0] if sizes else 0


def leading_sizes(value: Any, depth: int = DEPTH) -> tuple[int, ...]:
    """All dimensions of the first tensor that has any; none without such a tensor."""
    if isinstance(value, tensor_type()):
        return tuple(value.shape)
    if depth:
        for part in _parts(value):
            sizes = leading_sizes(part, depth - 1)
            if sizes and sizes[0]:
                return sizes
    return ()


def total_bytes(value: Any) -> int:
    """Bytes of all elements, views counted in full."""
    return sum(tensor.numel() * tensor.element_size() for tensor in each_tensor(value))


def scalar(value: Any) -> "Tensor | None":
    """A tensor of one element, given as it is or alone in a list; ``None`` for anything else."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, tensor_type()) and value.numel() == 1 else None


def inner_shapes(value: Any) -> tuple[tuple[int, ...], ...]:
    """Shapes without dimension 0, which the last batch of an epoch has smaller anyway."""
    return tuple(tuple(tensor.shape[1:]) for tensor in each_tensor(value))


@cache
def tensor_type() -> type["Tensor"]:
    """``torch.Tensor``, without the price of an import statement on every step."""
    from torch import Tensor

    return Tensor


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        return iter(value)
    if isinstance(value, Mapping):
        return iter(value.values())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (getattr(value, field.name) for field in dataclasses.fields(value))
    return iter(())
