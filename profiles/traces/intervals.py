"""Arithmetic on sets of time intervals: their union, and how much of others it covers."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]

PIECE = 1 << 15
"""Intervals of a large trace are looked at so many at a time where each needs a dozen numbers meanwhile."""


@dataclass(frozen=True)
class Union:
    """Disjoint intervals in order of time."""

    begin: Times
    end: Times

    @property
    def length(self) -> float:
        """Their lengths together."""
        return float((self.end - self.begin).sum())

    def before(self, when: Times) -> Times:
        """Length of the part that lies before each moment."""
        if not len(self.begin):
            return np.zeros(len(when))
        whole = np.concatenate(([0.0], np.cumsum(self.end - self.begin)))
        nearest = np.searchsorted(self.begin, when, side="right")
        last = np.maximum(nearest - 1, 0)
        return np.where(nearest > 0, whole[last] + np.minimum(when, self.end[last]) - self.begin[last], 0.0)

    def covers(self, begin: Times, end: Times) -> Times:
        """Length of each of these intervals that lies within the union."""
        return self.before(end) - self.before(begin)

    def within(self, begin: float, end: float) -> "Union":
        """The part of it between two moments."""
        clipped = np.clip(self.begin, begin, end), np.clip(self.end, begin, end)
        kept = clipped[1] > clipped[0]
        return Union(clipped[0][kept], clipped[1][kept])

    def gaps(self) -> "Union":
        """What lies between its intervals."""
        return Union(self.end[:-1], self.begin[1:])

    def pieces(self, most: int = PIECE) -> Iterator["Union"]:
        """Its intervals in order, so many at a time; nothing where there is none."""
        for first in range(0, len(self.begin), most):
            yield Union(self.begin[first : first + most], self.end[first : first + most])


def union(begin: Times, end: Times, reach: float = 0.0) -> Union:
    """The union of intervals; those not more than ``reach`` apart become one."""
    if not len(begin):
        return Union(np.empty(0), np.empty(0))
    order = np.argsort(begin, kind="stable")
    begin, latest = begin[order], np.maximum.accumulate(end[order])
    fresh = np.concatenate(([True], begin[1:] > latest[:-1] + reach))
    last = np.concatenate((np.flatnonzero(fresh)[1:] - 1, [len(begin) - 1]))
    return Union(begin[fresh], latest[last])
