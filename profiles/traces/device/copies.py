"""Copies between host and device in a trace: how much, how, and what they wait for."""

from collections.abc import Iterator

import numpy as np

from advisor.profiles.facts.recorded import Copies
from advisor.profiles.traces.calls import Calls
from advisor.profiles.traces.intervals import Union
from advisor.profiles.traces.nesting import Flags, Ints

DIRECTIONS = {"h2d": "Memcpy HtoD", "d2h": "Memcpy DtoH", "d2d": "Memcpy DtoD", "memset": "Memset"}
NEAR_US = 1000.0  # gap and length, up to which RatelProf would join equal copies


def copies_of(calls: Calls, computing: Union) -> tuple[Copies, ...]:
    """Copies of each direction, per step.

    Args:
        calls: Of a trace with a device.
        computing: When kernels ran.
    """
    return tuple(
        _copies(calls, direction, chosen, computing)
        for direction in DIRECTIONS
        if len(chosen := np.flatnonzero(is_copy(calls, direction)))
    )


def is_copy(calls: Calls, direction: str) -> Flags:
    """Which of the device's events are copies of this direction."""
    begins = DIRECTIONS[direction]
    return calls.kernels_named(lambda name: name.startswith(begins))


def _copies(calls: Calls, direction: str, chosen: Ints, computing: Union) -> Copies:
    trace, rows = calls.trace, calls.kernels[chosen]
    begin, end = trace.begin_us[rows], trace.end_us[rows]
    length = end - begin
    sizes = np.array([_bytes(calls, row) for row in rows.tolist()])
    total = float(sizes.sum())
    pageable = calls.kernels_named(lambda name: "Pageable" in name)[chosen]
    blocking = _blocking(calls, chosen)
    most, gap_us = max(_like(calls, chosen, begin, end, sizes), default=(0, 0.0))
    return Copies(
        direction=direction,
        count=len(rows) / calls.steps.count,
        ms=calls.per_step_ms(float(length.sum())),
        bytes=total / calls.steps.count,
        overlapped=float(computing.covers(begin, end).sum() / max(length.sum(), 1e-9)),
        pageable=float(sizes[pageable].sum()) / total if total and direction in ("h2d", "d2h") else None,
        synchronous=None if blocking is None or not total else float(sizes[blocking].sum()) / total,
        largest_synchronous_bytes=0 if blocking is None else int(sizes[blocking].max(initial=0)),
        like=most,
        like_gap_ms=gap_us / 1000,
    )


def _bytes(calls: Calls, row: int) -> int:
    at = int(calls.trace.detail[row])
    value = calls.trace.details[at].get("bytes") if at >= 0 else None
    return value if isinstance(value, int) else 0


def _blocking(calls: Calls, chosen: Ints) -> Flags | None:
    """Which copies the host waits for: by a blocking call, or one in the operator that copies."""
    launch = calls.launched_by[chosen]
    if not (launch >= 0).any():
        return None
    owner = calls.owner[launch]
    awaited = (owner >= 0) & np.isin(owner, calls.owner[calls.waiting])
    found: Flags = (launch >= 0) & (np.isin(launch, calls.waiting) | awaited)
    return found


def _like(
    calls: Calls, chosen: Ints, begin: np.ndarray, end: np.ndarray, sizes: np.ndarray
) -> Iterator[tuple[int, float]]:
    """Number and gaps of each group of equal short copies, one right after another, within a step."""
    if len(chosen) < 2:
        return
    step, short = calls.kernel_step[chosen], end - begin < NEAR_US
    gap = begin[1:] - end[:-1]
    linked = short[1:] & short[:-1] & (gap < NEAR_US) & (sizes[1:] == sizes[:-1]) & (step[1:] == step[:-1])
    edges = np.flatnonzero(np.diff(linked.astype(np.int8), prepend=0, append=0))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield last - first + 1, float(np.maximum(gap[first:last], 0.0).sum())
