"""Whether a dataset is still what workers that live on were given when they were started."""

import time
from collections.abc import Iterator
from typing import Any

from advisor.profiles.hooks.loading.dataset_state import first_difference, state_of
from advisor.tuners.mechanisms.cached_items import glance, same

LIMIT_S = 0.5  # for reading two items; those of a dataset that takes longer are not read again
MOST_READ = 4  # epochs at whose start items are read: it takes time from the training


class GivenToWorkers:
    """What the workers of an iterator were given: attributes of the dataset, and two of its items.

    Items are read in this process with the same random numbers each time, so augmentation can be compared.
    Where they cannot, for want of a length, of time, or since two readings differ, attributes alone tell.

    Args:
        iterator: Of a DataLoader, just made.
    """

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._readings = 0
        self._items = self._read(iterator)
        again = self._read(iterator) if self._items else None
        if not _alike(self._items, again):  # it draws random numbers of its own
            self._items = None
        self._state = _state(iterator)  # now, for reading may have filled a cache of the dataset's own

    def change(self, iterator: Iterator[Any]) -> str | None:
        """What the program has changed since, such as ``dataset.epoch``; ``None`` if nothing was seen."""
        attribute = first_difference(self._state, _state(iterator))
        if attribute is not None or not self._items or self._readings > MOST_READ:
            return attribute
        now = self._read(iterator)
        self._state = _state(iterator)
        return None if _alike(self._items, now) else "the items of its dataset"

    def _read(self, iterator: Iterator[Any]) -> dict[int, Any] | None:
        """Two items; ``None`` where they cannot be read, or take too long to do it again."""
        self._readings += 1
        began = time.perf_counter()
        try:
            items = glance(getattr(iterator, "_dataset", None))
        except ValueError:
            return None
        return items if time.perf_counter() - began < LIMIT_S else None


def _alike(one: dict[int, Any] | None, other: dict[int, Any] | None) -> bool:
    """Whether both are known and the same, or nothing can be told."""
    if not one or not other:
        return True
    return one.keys() == other.keys() and all(same(item, other[index]) for index, item in one.items())


def _state(iterator: Iterator[Any]) -> dict[str, object]:
    fetching = getattr(iterator, "_collate_fn", None)
    return state_of(getattr(iterator, "_dataset", None), fetching)
