"""What operators of a trace compute and move by their shapes, and in which type their kernels multiply."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from advisor.profiles.traces import flops as formulas
from advisor.profiles.traces.equal_rows import alike
from advisor.profiles.traces.nesting import Flags, Ints
from advisor.profiles.traces.trace import narrow

if TYPE_CHECKING:
    from advisor.profiles.traces.calls import Calls, Times

FULL, ROUNDED = "float32", "float32_medium"

ROUNDING = re.compile(r"tf32|s1688|xf32|nvjet|_MX_", re.IGNORECASE)
"""Kernels that round float32 factors to TF32: CUTLASS, cuDNN, cuBLAS's nvjet, Tensile on ROCm."""

EXACT = re.compile(r"sgemm|f32f32_f32f32|scudnn|_simt_|_SB_|_SSS_", re.IGNORECASE)
"""Kernels that multiply float32 numbers as they are."""


NAMED = (
    ("bfloat16", re.compile(r"bf16|bfloat16|_BBS_|_BSS_", re.IGNORECASE)),
    ("float16", re.compile(r"fp16|(?<!b)f16f16|_[hs]884|_h1688|_h16816|hgemm|hcudnn|__half|_HHS_|_HSS_")),
    (FULL, re.compile(rf"{EXACT.pattern}|tf32|s1688|_engine<float,", re.IGNORECASE)),
)
"""Types that kernels multiply, by their names; the first that fits."""


@dataclass(frozen=True)
class Work:
    """What operators compute and move, told once for all that are alike in name and inputs.

    Attributes:
        kind: Of each event of the host, a position in the next two; the last is no operator with a formula.
            An operator that passes its arithmetic on to one that it calls is none.
        kinds_flops: FLOP of one call of each kind, NaN where it is not known.
        kinds_bytes: The same of bytes.
        arithmetic: Of each event the position of its type in ``types``, -1 where it is not known.
    """

    kind: Ints
    kinds_flops: "Times"
    kinds_bytes: "Times"
    arithmetic: Ints
    types: tuple[str, ...]

    def flops(self, rows: Ints) -> "Times":
        """FLOP of one call of each of these events."""
        return self.kinds_flops[self.kind[rows]]

    def bytes(self, rows: Ints) -> "Times":
        """Bytes of one call of each of these events."""
        return self.kinds_bytes[self.kind[rows]]


def work_of(calls: "Calls") -> Work:
    """The work of the operators within steps, looked up once for what is alike in name and inputs."""
    size = len(calls.host)
    arithmetic = np.full(size, -1, dtype=np.int8)
    rows = np.flatnonzero(calls.op & (calls.step >= 0) & ~_covered(calls))
    kinds = alike(calls.name[rows], calls.signature[rows])
    found = [_of(calls, int(rows[at])) for at in kinds.first.tolist()]
    types = tuple(sorted({dtype for _, _, dtype in found if dtype} | {FULL, ROUNDED}))
    group = narrow(kinds.group)
    kind = np.full(size, -1, dtype=group.dtype)
    if found:
        kind[rows] = group
        number = [types.index(each[2]) if each[2] else -1 for each in found]
        arithmetic[rows] = np.array(number, dtype=np.int8)[kinds.group]
    rounded = (arithmetic == types.index(FULL)) & multiplying(calls, ROUNDING)
    arithmetic[rounded] = types.index(ROUNDED)
    flops, moved = (np.array([*(each[at] for each in found), np.nan]) for at in (0, 1))
    return Work(kind, flops, moved, arithmetic, types)


def multiplying(calls: "Calls", named: re.Pattern[str]) -> Flags:
    """Which operators launched a kernel with such a name themselves."""
    owners = calls.kernel_owner[calls.kernels_named(lambda name: named.search(name) is not None)]
    found = np.zeros(len(calls.host), dtype=np.bool_)
    found[owners[owners >= 0]] = True
    return found


def named_types(calls: "Calls") -> Ints:
    """For each operator the position in ``NAMED`` of what its kernels multiply, or -1.

    Only where nothing says which types its inputs have: a trace recorded without shapes.
    """
    found = np.full(len(calls.host), -1, dtype=np.int8)
    if not any(signature.dtype for signature in calls.signatures.distinct):
        for at in reversed(range(len(NAMED))):
            found[multiplying(calls, NAMED[at][1])] = at
    return found


def flops_by_type(calls: "Calls", recomputed: Ints) -> tuple[tuple[str, float], ...]:
    """FLOP of one step by type, without these operators and what they call."""
    again = np.zeros(len(calls.host), dtype=np.bool_)
    again[recomputed] = True
    known = np.flatnonzero((calls.work.arithmetic >= 0) & ~again & (calls.host.nearest(again) < 0))
    flops = np.nan_to_num(calls.work.flops(known), nan=0.0)
    done = np.bincount(calls.work.arithmetic[known], flops, len(calls.work.types))
    per_step = (done / calls.steps.count).tolist()
    return tuple((name, each) for name, each in zip(calls.work.types, per_step, strict=True) if each)


def _of(calls: "Calls", row: int) -> tuple[float, float, str | None]:
    name, signature = calls.trace.names[calls.name[row]], calls.signature_of(row)
    work, moved = formulas.flops(name, signature), formulas.bytes_moved(name, signature)
    return np.nan if work is None else work, np.nan if moved is None else moved, signature.dtype


def _covered(calls: "Calls") -> Flags:
    """Which operators pass their arithmetic on to one that they call."""
    covered = np.zeros(len(calls.host), dtype=np.bool_)
    callers = calls.owner[calls.op & calls.named(formulas.has_formula)]
    while len(callers := callers[callers >= 0]):
        fresh = callers[~covered[callers]]
        covered[fresh] = True
        callers = calls.owner[np.unique(fresh)]
    return covered
