"""Rows of columns that agree in everything, found without sorting them: there may be millions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.profiles.traces.trace import Numbers

ROOM = 1 << 16  # keys that are counted in any case; from there on no more than there are rows


@dataclass(frozen=True)
class Alike:
    """Groups of equal rows, in the order of the first column, then of the second, and so on.

    Attributes:
        first: The first row of each group.
        group: The group of each row.
        count: How many rows each group has.
    """

    first: Numbers
    group: Numbers
    count: Numbers


def alike(*columns: NDArray[Any]) -> Alike:
    """Group the rows of integer columns, one entry a row each."""
    most = max(ROOM, len(columns[0]))
    key, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        low = int(column.min()) if len(column) else 0
        span = int(column.max()) - low + 1 if len(column) else 1
        numbers = np.subtract(column, low, dtype=np.int64)
        if size * span <= most:
            key *= span  # in place: these are the largest arrays of an analysis
            key += numbers
            size *= span
            continue
        numbers, span = _counted(numbers, span, most)
        key, size = _counted(key * span + numbers, size * span, most)
    count = np.bincount(key, minlength=size)
    used = np.flatnonzero(count)
    first = np.zeros(size, np.int64)
    first[key[::-1]] = np.arange(len(key) - 1, -1, -1)  # the last that is written stays: the first row
    group = np.zeros(size, np.int32)
    group[used] = np.arange(len(used))
    return Alike(first[used], group[key], count[used])


def _counted(values: Numbers, size: int, most: int) -> tuple[NDArray[np.int64], int]:
    """Values below ``size`` numbered in their order, and how many there are."""
    if size > most:
        distinct, numbers = np.unique(values, return_inverse=True)
        return numbers.reshape(-1).astype(np.int64), len(distinct)
    used = np.bincount(values, minlength=size) > 0
    return (np.cumsum(used) - 1)[values], int(used.sum())
