"""The kernels that take most of a device's time: by which operator, from which line, at which rates."""

from collections.abc import Iterator

import numpy as np

from advisor.profiles.facts.recorded import KernelCost
from advisor.profiles.traces.calls import OPTIMIZER, Calls
from advisor.profiles.traces.device.kernels import MEMCPY, MEMSET, kind_of
from advisor.profiles.traces.equal_rows import alike
from advisor.profiles.traces.nesting import Ints

MOST_KERNELS = 40


def kernel_costs(calls: Calls, chosen: Ints, most: int | None = MOST_KERNELS) -> tuple[KernelCost, ...]:
    """Events of a device by name, operator and place, those with the longest time first.

    What an operator computes and moves is divided among its kernels by their time.

    Args:
        calls: Of a trace with a device.
        chosen: Positions in ``calls.kernels``.
        most: How many at most; ``None`` for all.
    """
    return tuple(sorted(_costs(calls, chosen), key=lambda each: -each.us)[:most])


def _costs(calls: Calls, chosen: Ints) -> Iterator[KernelCost]:
    trace, rows, owner = calls.trace, calls.kernels[chosen], calls.kernel_owner[chosen]
    if not len(rows):
        return
    launch = calls.launched_by[chosen]
    source = np.where(launch >= 0, launch, owner)
    known = source >= 0
    numbers, places = calls.places
    place = np.where(known, numbers[source], -1)
    updating = known & (calls.phase[source] == OPTIMIZER)
    operator = np.where(owner >= 0, calls.name[owner], -1)
    arithmetic = np.where(owner >= 0, calls.work.arithmetic[owner], -1)
    us = trace.duration_us[rows]
    part = us / np.maximum(calls.kernel_us[owner], 1e-9)
    kinds = alike(trace.name[rows], operator, place, arithmetic, updating)
    group, spent = kinds.group, np.bincount(kinds.group, us)
    flops, moved = (
        np.bincount(group, np.where(owner >= 0, each(owner) * part, np.nan)) / np.maximum(spent, 1e-9) * 1e6
        for each in (calls.work.flops, calls.work.bytes)
    )
    for number, at in enumerate(kinds.first.tolist()):
        op = trace.names[operator[at]] if operator[at] >= 0 else ""
        name, category = trace.names[trace.name[rows[at]]], trace.category[rows[at]]
        kind = kind_of(name, op, memset=category == MEMSET, updating=bool(updating[at]))
        yield KernelCost(
            name=name,
            kind="copy" if category == MEMCPY else kind,
            calls=int(kinds.count[number]) / calls.steps.count,
            us=float(spent[number]) / calls.steps.count,
            op=op,
            location=places[place[at]] if place[at] >= 0 else None,
            dtype=calls.work.types[arithmetic[at]] if arithmetic[at] >= 0 else None,
            flops_per_s=float(flops[number]) if np.isfinite(flops[number]) else None,
            bytes_per_s=float(moved[number]) if np.isfinite(moved[number]) else None,
        )
