"""Exchanges between ranks by kind and size: bandwidth of the bus, waiting for the last rank, overlap."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.profiles.facts.recorded import Collective
from advisor.profiles.traces.calls import Calls, Times
from advisor.profiles.traces.device.rank_times import Communication, communication_of, payload
from advisor.profiles.traces.nesting import Ints
from advisor.profiles.traces.signatures import Signature

KINDS = (
    (r"all_?reduce", "all_reduce"), (r"all_?gather", "all_gather"), (r"reduce_?scatter", "reduce_scatter"),
    (r"all_?to_?all", "all_to_all"), (r"send|recv", "send_recv"), (r"broadcast", "broadcast"),
    (r"reduce", "reduce"), (r"gather", "gather"), (r"scatter", "scatter"), (r"barrier", "barrier"),
)  # fmt: skip
"""Parts of names in PyTorch, NCCL, RCCL and gloo; the first that fits."""

MOST_TURNS = 32  # buckets of 25 MB, as DDP makes them, hold 200 million parameters in so many

_KINDS = tuple((re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in KINDS)


@dataclass(frozen=True)
class _Exchange:
    """One exchange of one rank; ``bytes`` is what the kind's bandwidth is defined over."""

    kind: str
    bytes: int | None
    group: int | None


def collectives(every: Sequence[Calls]) -> tuple[Collective, ...]:
    """Exchanges of the first rank by kind, size and group, those with the longest time first.

    Ranks end an exchange together: the shortest of all is the one that came last and waited for nobody, and
    takes as long as moving the bytes. Lengths alone are compared, so clocks of machines may differ. With one
    trace, or where ranks have not equally many exchanges, waiting is in the time of moving.

    Args:
        every: Calls of each rank, the first the one to tell of.
    """
    seen = [communication_of(calls) for calls in every]
    first = seen[0] if seen else None
    if first is None:
        return ()
    lengths = [found.end_us - found.begin_us for found in seen if found is not None]
    alike = len(lengths) == len(every) > 1 and len({len(each) for each in lengths}) == 1
    moving = np.min(lengths, axis=0) if alike else lengths[0]
    overlapped: Times = first.computing.covers(first.begin_us, first.end_us)
    found: dict[_Exchange, list[int]] = {}
    for at, exchange in enumerate(_exchanges(every[0], first.rows.tolist())):
        found.setdefault(exchange, []).append(at)
    steps, step = every[0].steps.count, _steps_of(every[0], first)
    told = [
        Collective(
            kind=exchange.kind,
            calls=len(at) / steps,
            ms=every[0].per_step_ms(float(lengths[0][at].sum())),
            bytes=exchange.bytes,
            ranks=exchange.group,
            wait_ms=every[0].per_step_ms(float((lengths[0] - moving)[at].sum())) if alike else None,
            bus_bytes_per_s=_bandwidth(exchange, float(np.median(moving[at]))),
            overlapped=float(overlapped[at].sum() / max(lengths[0][at].sum(), 1e-9)),
            overlapped_in_turn=_in_turn(step[at], overlapped[at], lengths[0][at]),
        )
        for exchange, at in found.items()
    ]
    return tuple(sorted(told, key=lambda each: -each.ms))


def _steps_of(calls: Calls, found: Communication) -> Ints:
    """The step of each exchange: on a device, the one that launched it."""
    if not found.on_device:
        return calls.steps.of(found.begin_us)
    return calls.kernel_step[np.searchsorted(calls.kernels, found.rows)]


def _in_turn(step: Ints, overlapped: Times, length: Times) -> tuple[float, ...]:
    """Overlap of the first exchange of each step, of the second, and so on."""
    turns = np.bincount(step - step.min())
    turns = turns[turns > 0]
    if not 1 < turns[0] <= MOST_TURNS or (turns != turns[0]).any():
        return ()
    order = np.argsort(step, kind="stable")
    hidden, whole = (each[order].reshape(-1, turns[0]).sum(axis=0) for each in (overlapped, length))
    return tuple((hidden / np.maximum(whole, 1e-9)).tolist())


def bus_factor(kind: str, ranks: int) -> float:
    """What bytes over time are multiplied by to be the rate of a link (nccl-tests, doc/PERFORMANCE.md)."""
    if kind == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if kind in ("all_gather", "reduce_scatter", "all_to_all") else 1.0


def _bandwidth(exchange: _Exchange, us: float) -> float | None:
    if not exchange.bytes or not exchange.group or exchange.group < 2 or us <= 0:
        return None
    return exchange.bytes / (us / 1e6) * bus_factor(exchange.kind, exchange.group)


def _exchanges(calls: Calls, rows: list[int]) -> list[_Exchange]:
    trace = calls.trace
    shared = trace.info.get("distributedInfo")
    world = shared.get("world_size") if isinstance(shared, dict) else None
    kernels = np.append(calls.kernels, -1)
    at_kernel = np.searchsorted(calls.kernels, rows)
    owners = np.where(kernels[at_kernel] == rows, np.append(calls.kernel_owner, -1)[at_kernel], -1)
    found: dict[tuple[int, int, int], _Exchange] = {}
    told = []
    for row, owner in zip(rows, owners.tolist(), strict=True):
        at = int(trace.detail[row])
        key = (int(trace.name[row]), at, owner if at < 0 else -1)
        if key not in found:
            detail = trace.details[at] if at >= 0 else {}
            signature = calls.signature_of(owner) if owner >= 0 else Signature()
            named = f"{detail.get('Collective name', '')} {trace.names[trace.name[row]]}"
            kind = next((kind for pattern, kind in _KINDS if pattern.search(named)), "other")
            group = detail.get("Group size", world)
            group = group if type(group) is int and group > 0 else None
            size = payload(detail, whole=kind == "all_gather") or signature.input_bytes or None
            if size and kind == "all_gather" and "Out msg nelems" not in detail and group:
                size *= group
            found[key] = _Exchange(kind, size, group)
        told.append(found[key])
    return told
