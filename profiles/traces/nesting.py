"""Events of the host as a forest: which one ran inside which, by time, on each thread."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from advisor.profiles.traces.trace import Trace

HOST = ("cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver")
SLACK_NS = 2  # timestamps of 13 digits before the point lose that much as floats
ROUNDS = 4  # of clipping what overlaps without nesting; each settles one more level

Ints = NDArray[np.int64]
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
        found = np.full(len(self.rows), -1, dtype=np.int64)
        for level in self.levels[1:]:
            above = self.parent[level]
            found[level] = np.where(wanted[above], above, found[above])
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
    rows = np.flatnonzero(trace.of(*HOST))
    origin = float(trace.begin_us[rows].min()) if len(rows) else 0.0
    begin = np.rint((trace.begin_us[rows] - origin) * 1000).astype(np.int64)
    length = np.rint(trace.duration_us[rows] * 1000).astype(np.int64)
    end = begin + np.maximum(length, SLACK_NS + 1)
    annotation = trace.of("user_annotation")[rows]
    thread = trace.thread[rows]
    few = len(trace.threads) < 2**15  # so many numbers are sorted by radix
    order = np.argsort(thread.astype(np.int16) if few else thread, kind="stable")
    bounds = np.flatnonzero(np.diff(thread[order], prepend=-1, append=-1))
    for _ in range(ROUNDS):
        parent, levels = _forest(begin[order], end[order], bounds)
        above = np.maximum(parent, 0)
        first, last, within = begin[order], end[order], end[order][above]
        # whoever begins after its parent's end was misplaced by another that outlasts
        outlasts = (parent >= 0) & (first + SLACK_NS < within) & (last > within + SLACK_NS)
        if not outlasts.any():
            break
        late = np.flatnonzero(outlasts & annotation[order] & ~annotation[order][above])
        begin[order[late]] = _entered(late, parent, last)
        early = np.flatnonzero(outlasts & ~annotation[order])
        end[order[early]] = np.maximum(within[early], first[early] + SLACK_NS + 1)
        if len(late):
            order = np.lexsort((begin - end, begin, thread))
    return Host(rows[order], parent, levels)


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
    depth = np.empty(len(begin), dtype=np.int64)
    for first, last in pairwise(bounds.tolist()):
        ended = np.searchsorted(np.sort(end[first:last]), begin[first:last] + SLACK_NS, side="right")
        depth[first:last] = np.arange(last - first) - ended
    parent = np.full(len(begin), -1, dtype=np.int64)
    order = np.argsort(depth, kind="stable")
    levels = tuple(np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)) if len(order) else ()
    for outer, inner in pairwise(levels):
        parent[inner] = outer[np.searchsorted(outer, inner) - 1]
    return parent, levels
