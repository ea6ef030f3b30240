"""What operators of a trace compute and move by their shapes, and in which type their kernels multiply."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from advisor.profiles.traces.flops import bytes_moved, flops, has_formula
from advisor.profiles.traces.nesting import Flags, Ints

if TYPE_CHECKING:
    from advisor.profiles.traces.calls import Calls, Times

FULL, ROUNDED = "float32", "float32_medium"

ROUNDING = re.compile(r"tf32|s1688|xf32|nvjet|_MX_", re.IGNORECASE)
"""Kernels that round float32 factors to TF32: CUTLASS, cuDNN, cuBLAS's nvjet, Tensile on ROCm."""

EXACT = re.compile(r"sgemm|f32f32_f32f32|scudnn|_simt_|_SB_|_SSS_", re.IGNORECASE)
"""Kernels that multiply float32 numbers as they are."""


@dataclass(frozen=True)
class Work:
    """For each event of the host FLOP and bytes of one call, NaN where it is no operator with a formula.

    An operator that passes its arithmetic on to one that it calls has none. ``arithmetic`` is the position of
    the type in ``types``, -1 where it is not known.
    """

    flops: "Times"
    bytes: "Times"
    arithmetic: Ints
    types: tuple[str, ...]


def work_of(calls: "Calls") -> Work:
    """The work of the operators within steps, looked up once for what is alike in name and inputs."""
    size = len(calls.host)
    work, moved = np.full(size, np.nan), np.full(size, np.nan)
    arithmetic = np.full(size, -1, dtype=np.int64)
    rows = np.flatnonzero(calls.op & (calls.step >= 0) & ~_covered(calls))
    key = calls.name[rows].astype(np.int64) * len(calls.signatures.distinct) + calls.signature[rows]
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    alike = [_of(calls, int(rows[at])) for at in first.tolist()]
    types = tuple(sorted({dtype for _, _, dtype in alike if dtype} | {FULL, ROUNDED}))
    if alike:
        work[rows] = np.array([each[0] for each in alike])[group]
        moved[rows] = np.array([each[1] for each in alike])[group]
        arithmetic[rows] = np.array([types.index(each[2]) if each[2] else -1 for each in alike])[group]
    rounded = (arithmetic == types.index(FULL)) & multiplying(calls, ROUNDING)
    arithmetic[rounded] = types.index(ROUNDED)
    return Work(work, moved, arithmetic, types)


def multiplying(calls: "Calls", named: re.Pattern[str]) -> Flags:
    """Which operators launched a kernel with such a name themselves."""
    owners = calls.kernel_owner[calls.kernels_named(lambda name: named.search(name) is not None)]
    found = np.zeros(len(calls.host), dtype=np.bool_)
    found[owners[owners >= 0]] = True
    return found


def flops_by_type(calls: "Calls", recomputed: Ints) -> tuple[tuple[str, float], ...]:
    """FLOP of one step by type, without these operators and what they call."""
    again = np.zeros(len(calls.host), dtype=np.bool_)
    again[recomputed] = True
    known = ~np.isnan(calls.work.flops) & ~again & (calls.host.nearest(again) < 0)
    known &= calls.work.arithmetic >= 0
    done = np.bincount(calls.work.arithmetic[known], calls.work.flops[known], len(calls.work.types))
    per_step = (done / calls.steps.count).tolist()
    return tuple((name, each) for name, each in zip(calls.work.types, per_step, strict=True) if each)


def _of(calls: "Calls", row: int) -> tuple[float, float, str | None]:
    name, signature = calls.trace.names[calls.name[row]], calls.signature_of(row)
    work, moved = flops(name, signature), bytes_moved(name, signature)
    return np.nan if work is None else work, np.nan if moved is None else moved, signature.dtype


def _covered(calls: "Calls") -> Flags:
    """Which operators pass their arithmetic on to one that they call."""
    covered = np.zeros(len(calls.host), dtype=np.bool_)
    callers = calls.owner[calls.op & calls.named(has_formula)]
    while len(callers := np.unique(callers[callers >= 0])):
        covered[callers] = True
        callers = calls.owner[callers]
    return covered
