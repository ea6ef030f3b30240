"""What a loop is given for an iterator whose batches a subscriber changes."""

from collections.abc import Iterator
from typing import Any


class ChangedBatches:
    """A changed iterator that still answers as the DataLoader's own one."""

    def __init__(self, changed: Iterator[Any], original: Any) -> None:
        self._changed = changed
        self._original = original

    @property  # type: ignore[misc]  # isinstance() must say what it said before
    def __class__(self) -> Any:
        return type(self._original)

    def __iter__(self) -> "ChangedBatches":
        return self

    def __next__(self) -> Any:
        return next(self._changed)

    def __len__(self) -> int:
        return len(self._original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)
