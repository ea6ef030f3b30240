"""Events of the host as a forest: which one ran inside which, by time, on each thread."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from advisor.profiles.traces.trace import Numbers, Trace

HOST = ("cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver")
SLACK_NS = 2  # timestamps of 13 digits before the point lose that much as floats
ROUNDS = 4  # of clipping what overlaps without nesting; each settles one more level

Ints = Numbers
"""Positions: of four bytes where there are many (``reading.MAX_EVENTS`` is far below what these hold)."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Host:
    """Host events by thread, then by beginning; a position below is one in ``rows``.

    Attributes:
        rows: Positions in the trace.
        parent: Position of the innermost event around each, or -1.
        levels: Positions of the events at each depth, outermost first.
    """

    rows: Ints
    parent: Ints
    levels: tuple[Ints, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def nearest(self, wanted: Flags) -> Ints:
        """Position of the innermost wanted event around each event, itself not counted, or -1."""
        found = np.full(len(self.rows), -1, dtype=np.int32)
        for level in self.levels[1:]:
            above = self.parent[level]
            found[level] = np.where(wanted[above], above, found[above])
        return found

    def around(self, inner: Ints) -> Flags:
        """Which events are these or have one of them inside."""
        found = np.zeros(len(self.rows), dtype=np.bool_)
        while len(inner := inner[inner >= 0]):
            inner = np.unique(inner[~found[inner]])
            found[inner] = True
            inner = self.parent[inner]
        return found

    def sum_up(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each event its value and those of all events inside it."""
        sums = values.copy()
        for level in reversed(self.levels[1:]):
            np.add.at(sums, self.parent[level], sums[level])
        return sums


def nest(trace: Trace) -> Host:
    """The forest of a trace's host events.

    An annotation begins within the Python function that makes it and outlasts that: it is taken to begin
    when the function ends. Whatever else overlaps without nesting is taken to end with what it began in.
    """
    rows = np.flatnonzero(trace.of(*HOST)).astype(np.int32)
    origin = float(trace.begin_us[rows].min()) if len(rows) else 0.0
    few = len(trace.threads) < 2**15  # so many numbers are sorted by radix
    thread = trace.thread[rows]
    rows = rows[np.argsort(thread.astype(np.int16) if few else thread, kind="stable")]
    thread = trace.thread[rows]
    bounds = np.flatnonzero(np.diff(thread, prepend=-1, append=-1))
    begin = np.rint((trace.begin_us[rows] - origin) * 1000).astype(np.int64)
    end = np.rint(trace.duration_us[rows] * 1000).astype(np.int64)
    np.maximum(end, SLACK_NS + 1, out=end)
    end += begin
    annotation = trace.of("user_annotation")[rows]
    for _ in range(ROUNDS):
        parent, levels = _forest(begin, end, bounds)
        above = np.maximum(parent, 0)
        within = end[above]
        # whoever begins after its parent's end was misplaced by another that outlasts
        outlasts = (parent >= 0) & (begin + SLACK_NS < within) & (end > within + SLACK_NS)
        if not outlasts.any():
            break
        late = np.flatnonzero(outlasts & annotation & ~annotation[above])
        begin[late] = _entered(late, parent, end)
        early = np.flatnonzero(outlasts & ~annotation)
        end[early] = np.maximum(within[early], begin[early] + SLACK_NS + 1)
        if len(late):
            order = np.lexsort((begin - end, begin, thread))
            rows, begin, end, annotation = rows[order], begin[order], end[order], annotation[order]
    return Host(rows, parent, levels)


def _entered(annotations: Ints, parent: Ints, end: Ints) -> Ints:
    """When the outermost function ends in which each annotation begins and which it outlasts."""
    function = parent[annotations]
    while True:
        outer = parent[function]
        outlasted = (outer >= 0) & (end[outer] < end[annotations] - SLACK_NS)
        if not outlasted.any():
            return end[function]
        function = np.where(outlasted, outer, function)


def _forest(begin: Ints, end: Ints, bounds: Ints) -> tuple[Ints, tuple[Ints, ...]]:
    """Parents and levels; an event's depth is how many of those begun before it have not ended."""
    depth = np.empty(len(begin), dtype=np.int32)
    for first, last in pairwise(bounds.tolist()):
        ended = np.searchsorted(np.sort(end[first:last]), begin[first:last] + SLACK_NS, side="right")
        depth[first:last] = np.arange(last - first, dtype=np.int32)
        depth[first:last] -= ended.astype(np.int32)
    parent = np.full(len(begin), -1, dtype=np.int32)
    few = len(depth) and depth.max() < 2**15
    order = np.argsort(depth.astype(np.int16) if few else depth, kind="stable").astype(np.int32)
    levels = tuple(np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)) if len(order) else ()
    for outer, inner in pairwise(levels):
        parent[inner] = outer[np.searchsorted(outer, inner) - 1]
    return parent, levels
