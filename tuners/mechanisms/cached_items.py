"""A dataset that keeps its items, and the look that shows whether keeping them changes anything."""

import copy
import operator
import pickle
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from advisor.profiles.hooks.loading.loader_probe import TheirFailure, random_numbers_kept, theirs
from advisor.profiles.hooks.tensors import tensor_type

PLAIN = (type(None), bool, int, float, complex, str, bytes)
DEPTH = 5  # of datasets in datasets
OVERHEAD = 512  # assumed: bytes of a tensor or array beside its numbers


@dataclass(frozen=True)
class Look:
    """What two readings of two items showed: the items by index, and their mean size."""

    items: dict[int, Any]
    item_bytes: float


@dataclass
class _Kept:
    """The program's dataset, what was read of it, and the bytes that may still be kept."""

    dataset: Any
    room: int
    looked_at: dict[int, Any]
    items: dict[Any, Any] = field(default_factory=dict)

    def keep(self, index: Any, item: Any) -> None:
        """Keep a copy, if it is of a kind that can be copied and there is room."""
        if foreign(item) is not None:
            return
        size = size_of(item)
        if size <= self.room:
            self.room -= size
            self.items[index] = copied(item)


class CachedItems:
    """A map-style dataset that reads each item once; in all else it is the program's own dataset.

    Items are handed out as copies, so code that changes what it gets changes no later epoch. An attribute
    that is set is set on the program's dataset, and everything is read again. Each process keeps its own
    items: a pickled copy begins with none.

    Args:
        dataset: The program's own.
        room: Bytes that one process may keep; what does not fit is read every time.
        looked_at: Items read before, for ``has_changed``.
    """

    _advisor: _Kept

    def __init__(self, dataset: Any, room: int, looked_at: dict[int, Any] | None = None) -> None:
        self.__dict__["_advisor"] = _Kept(dataset, room, looked_at or {})

    @property  # type: ignore[misc]  # isinstance() must say what it said before
    def __class__(self) -> Any:
        return type(self._advisor.dataset)

    def __len__(self) -> int:
        return len(self._advisor.dataset)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._advisor.dataset)

    def __getitem__(self, index: Any) -> Any:
        kept = self._advisor
        if not isinstance(index, str | Integral):
            return kept.dataset[index]
        if index in kept.items:
            return copied(kept.items[index])
        item = kept.dataset[index]
        kept.keep(index, item)
        return item

    def __getattr__(self, name: str) -> Any:
        if name == "_advisor":  # not there yet
            raise AttributeError(name)
        found = getattr(self._advisor.dataset, name)
        return self._several if name == "__getitems__" and found else found

    def __setattr__(self, name: str, value: Any) -> None:
        self._advisor.items.clear()
        setattr(self._advisor.dataset, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return CachedItems, (self._advisor.dataset, self._advisor.room)

    def _several(self, indices: Sequence[Any]) -> Any:
        """What ``__getitems__`` of the program's dataset gives, which is asked for missing items only."""
        kept = self._advisor
        if not all(isinstance(index, str | Integral) for index in indices):
            return kept.dataset.__getitems__(indices)
        missing = [index for index in indices if index not in kept.items]
        read = dict(zip(missing, kept.dataset.__getitems__(missing), strict=True)) if missing else {}
        items = [read[index] if index in read else copied(kept.items[index]) for index in indices]
        for index, item in read.items():
            kept.keep(index, item)
        return items


def has_changed(cached: CachedItems) -> bool:
    """Whether an item that was looked at is another one by now, or cannot be read any more."""
    kept = cached._advisor
    if not kept.looked_at:
        return False
    try:
        now = _read(_apart(kept.dataset), list(kept.looked_at))
    except ValueError:
        return True
    return not all(same(now[index], item) for index, item in kept.looked_at.items())


def keep_nothing(cached: CachedItems) -> None:
    """Read every item from now on."""
    kept = cached._advisor
    kept.items.clear()
    kept.room = -1


def look(dataset: Any) -> Look:
    """Read the first and the last item twice. Random numbers go on as if they had not been read.

    Raises:
        ValueError: Items cannot be kept; the message is the reason.
    """
    try:
        length: int = theirs(len, dataset)
    except TheirFailure:
        raise ValueError("the dataset has no length, so nobody can tell whether it fits") from None
    if length == 0:
        raise ValueError("the dataset is empty")
    reader, indices = _apart(dataset), sorted({0, length - 1})
    items = _read(reader, indices)
    for index, item in items.items():
        unknown = foreign(item)
        if unknown is not None:
            raise ValueError(f"item {index} holds {unknown}, which cannot be compared")
    again = _read(reader, indices)
    for index, item in items.items():
        if not same(item, again[index]):
            raise ValueError(f"two reads of item {index} differ")
    return Look(items, sum(size_of(item) for item in items.values()) / len(items))


def glance(dataset: Any) -> dict[int, Any]:
    """The first and the last item, by index, with the random numbers that a fixed seed gives.

    Random numbers go on as if they had not been read.

    Raises:
        ValueError: They cannot be read ahead or compared; the message is the reason.
    """
    try:
        length: int = theirs(len, dataset)
    except TheirFailure:
        raise ValueError("the dataset has no length") from None
    items = _read(_apart(dataset), sorted({0, length - 1}), seed=0) if length else {}
    if any(foreign(item) is not None for item in items.values()):
        raise ValueError("its items cannot be compared")
    return items


def foreign(item: Any) -> str | None:
    """The first part of an item that is neither numbers nor text, in words; ``None`` without any."""
    inner = _parts(item)
    if inner is not None:
        return next((found for part in inner if (found := foreign(part)) is not None), None)
    if type(item) in PLAIN or _is_numpy(item) or _is_plain_tensor(item):
        return None
    kind = type(item).__name__
    return (
        "a tensor outside ordinary memory" if isinstance(item, tensor_type()) else f"an object of type {kind}"
    )


def size_of(item: Any) -> int:
    """Bytes that an item without foreign parts takes."""
    inner = _parts(item)
    if inner is not None:
        return sys.getsizeof(item) + sum(size_of(part) for part in inner)
    nbytes = getattr(item, "nbytes", None)
    return sys.getsizeof(item) if nbytes is None else OVERHEAD + int(nbytes)


def copied(item: Any) -> Any:
    """An item without foreign parts once more, sharing nothing that could be changed."""
    kind = type(item)
    if kind is dict:
        return {name: copied(part) for name, part in item.items()}
    if kind in (list, tuple):
        return kind(copied(part) for part in item)
    if _is_named(item):
        return item._make(copied(part) for part in item)
    if kind is tensor_type():
        return item.clone()
    return item.copy(order="K") if _is_array(item) else item


def same(one: Any, other: Any) -> bool:
    """Whether two items without foreign parts are equal in every bit that counts; NaN equals NaN."""
    if type(one) is not type(other):
        return False
    inner, others = _parts(one), _parts(other)
    if inner is not None and others is not None:
        keys = type(one) is not dict or list(one) == list(other)
        return keys and len(inner) == len(others) and all(map(same, inner, others))
    if isinstance(one, tensor_type()) or _is_numpy(one):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        return one.tobytes() == other.tobytes() if _is_numpy(one) else _equal_numbers(one, other)
    return bool(one == other or (one != one and other != other))


def _read(reader: Any, indices: list[int], seed: int | None = None) -> dict[int, Any]:
    """These items, read singly, and together too where the dataset offers that.

    With a ``seed`` they may draw random numbers, and are read singly.

    Raises:
        ValueError: They cannot be read like this, or not without drawing random numbers.
    """
    numpy = sys.modules.get("numpy.random")
    with random_numbers_kept():
        if seed is not None:
            _begin_anew(numpy, seed)
        before = _generators(numpy)
        try:
            items = {index: _apart_from_others(theirs(operator.getitem, reader, index)) for index in indices}
            several = getattr(reader, "__getitems__", None) if seed is None else None
            together = theirs(list, theirs(several, list(indices))) if several else list(items.values())
        except TheirFailure as failure:
            raise ValueError(f"items could not be read ahead: {type(failure.__cause__).__name__}") from None
        is_random = _generators(numpy) != before
    if is_random and seed is None:
        raise ValueError("items are made with random numbers, which a kept item would repeat")
    known = all(foreign(item) is None for item in (*items.values(), *together))
    if known and not same(together, list(items.values())):
        raise ValueError("__getitems__ does not give the items that single indices give")
    return items


def _apart_from_others(item: Any) -> Any:
    """A copy where possible: a dataset may use the memory of one item for the next."""
    return item if foreign(item) is not None else copied(item)


def _apart(dataset: Any, depth: int = DEPTH) -> Any:
    """A copy of it and of the datasets in it: what they open at their first item must not be forked."""
    from torch.utils.data import Dataset

    try:
        own = theirs(copy.copy, dataset)
    except TheirFailure:
        return dataset
    held: dict[str, Any] = getattr(own, "__dict__", {}) if depth and own is not dataset else {}
    for name, part in list(held.items()):
        if issubclass(type(part), Dataset):
            held[name] = _apart(part, depth - 1)
        elif type(part) is list and part and all(issubclass(type(each), Dataset) for each in part):
            held[name] = [_apart(each, depth - 1) for each in part]
    return own


def _generators(numpy: Any) -> list[Any]:
    """Where the random numbers of Python, torch and numpy (its module, if it is loaded) stand."""
    import torch

    of_numpy = None if numpy is None else pickle.dumps(numpy.get_state())
    return [random.getstate(), torch.get_rng_state().tolist(), of_numpy]


def _begin_anew(numpy: Any, seed: int) -> None:
    import torch

    random.seed(seed)
    torch.default_generator.manual_seed(seed)  # not torch.manual_seed(), which would seed GPUs, too
    if numpy is not None:
        numpy.seed(seed)


def _parts(item: Any) -> list[Any] | None:
    kind = type(item)
    if kind is dict:
        return list(item.values())
    return list(item) if kind in (list, tuple) or _is_named(item) else None


def _is_named(item: Any) -> bool:
    return isinstance(item, tuple) and hasattr(item, "_make")


def _is_plain_tensor(item: Any) -> bool:
    import torch

    return (
        type(item) is torch.Tensor
        and item.device.type == "cpu"
        and item.layout is torch.strided
        and not item.requires_grad
    )


def _is_array(item: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(item) is numpy.ndarray and not item.dtype.hasobject


def _is_numpy(item: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return _is_array(item) or (numpy is not None and isinstance(item, numpy.generic))


def _equal_numbers(one: Any, other: Any) -> bool:
    import torch

    return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())
