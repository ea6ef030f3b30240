"""What a model returns for one sample, as arrays by the place they stand at."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Leaf:
    """One array of an output; ``dtype`` is the model's own name of it, since numpy has no bfloat16."""

    values: Array
    dtype: str

    @property
    def floating(self) -> bool:
        """Whether it holds numbers that roundings may change."""
        return self.values.dtype.kind in "fc"


Output = Mapping[str, Leaf]
"""Leaves by path, such as ``logits`` or ``0.boxes``; a bare tensor has the path ``""``."""


def flattened(output: Any) -> Output:
    """The leaves of what a model returned: tensors, arrays, numbers, text, in mappings and sequences."""
    return dict(_leaves(output, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Leaf]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from _leaves(part, f"{path}.{place}" if path else str(place))
    elif hasattr(value, "detach"):
        yield path, _of_tensor(value)
    elif isinstance(value, np.ndarray | np.generic | bool | int | float | complex | str):
        array = np.asarray(value)
        yield path, Leaf(array, "str" if array.dtype.kind == "U" else array.dtype.name)
    else:  # its kind is part of the structure, its content is not compared
        yield path, Leaf(np.empty(0), type(value).__name__)


def _of_tensor(tensor: Any) -> Leaf:
    dtype = str(tensor.dtype).removeprefix("torch.")
    kept = tensor.detach().cpu()
    if kept.is_floating_point() and dtype not in ("float32", "float64"):
        kept = kept.float()
    return Leaf(kept.numpy().copy(), dtype)
