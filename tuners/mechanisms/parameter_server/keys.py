"""Parameters as both sides of a parameter server know them, and how their bytes travel together."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

ALIGNMENT = 16  # bytes; the largest element of torch's dtypes


@dataclass(frozen=True)
class Key:
    """One parameter.

    Attributes:
        name: As ``named_parameters`` has it.
        shape: Of its values and of its gradient.
        dtype: As torch spells it, without ``torch.``.
        nbytes: Size of its values.
        group: Ordinal of the parameter group of the program's optimizer that it belongs to.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    group: int = 0

    @property
    def room(self) -> int:
        """Bytes that it takes in a message."""
        return -(-self.nbytes // ALIGNMENT) * ALIGNMENT

    def as_json(self) -> list[Any]:
        """What ``from_json`` reads."""
        return list(astuple(self))

    @classmethod
    def from_json(cls, values: list[Any]) -> "Key":
        """The key that ``as_json`` wrote."""
        name, shape, *rest = values
        return cls(name, tuple(shape), *rest)


def key_of(name: str, tensor: "Tensor", group: int = 0) -> Key:
    """The key of a parameter."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Key(name, tuple(tensor.shape), dtype, tensor.numel() * tensor.element_size(), group)


def split_keys(keys: Sequence[Key], loads: Sequence[int]) -> list[list[Key]]:
    """Give each key to a server, the largest first, each to the one that has the fewest bytes.

    Args:
        keys: What is given away; every process that splits the same keys comes to the same.
        loads: Bytes that each server has already; as many as there are servers.

    Returns:
        The keys of each server, in the order of ``keys``.
    """
    held, owner = list(loads), dict[str, int]()
    for key in sorted(keys, key=lambda key: -key.nbytes):
        owner[key.name] = held.index(min(held))
        held[owner[key.name]] += max(1, key.nbytes)
    return [[key for key in keys if owner[key.name] == server] for server in range(len(held))]


def runs(keys: Sequence[Key], limit: int) -> Iterator[list[Key]]:
    """Cut keys into messages of at most ``limit`` bytes; a key that is larger travels alone."""
    run, size = list[Key](), 0
    for key in keys:
        if run and size + key.room > limit:
            yield run
            run, size = [], 0
        run.append(key)
        size += key.room
    if run:
        yield run


def pack(keys: Sequence[Key], tensors: Sequence["Tensor"]) -> "Tensor":
    """The values of ``tensors`` as one tensor of bytes on the CPU."""
    import torch

    payload = torch.empty(sum(key.room for key in keys), dtype=torch.uint8)
    for view, tensor in zip(unpack(keys, payload), tensors, strict=True):
        view.copy_(tensor.detach())
    return payload


def unpack(keys: Sequence[Key], payload: "Tensor") -> list["Tensor"]:
    """Views of the values that ``pack`` wrote."""
    import torch

    views, start = [], 0
    for key in keys:
        flat = payload[start : start + key.nbytes].view(getattr(torch, key.dtype))
        views.append(flat.view(key.shape))
        start += key.room
    return views
