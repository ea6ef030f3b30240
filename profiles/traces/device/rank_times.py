"""What each process of a distributed run did in its steps: computing, communicating, waiting for others."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from advisor.profiles.facts.observed import RankFacts
from advisor.profiles.traces.calls import LOADER, Calls, Times, calls_of
from advisor.profiles.traces.intervals import Union, union
from advisor.profiles.traces.nesting import Ints
from advisor.profiles.traces.signatures import signature
from advisor.profiles.traces.trace import CATEGORIES, Trace

KERNEL = CATEGORIES.index("kernel")
EXCHANGES = ("nccl", "gloo:", "mpi:", "ucc:")
HOST_SIDE = ("c10d::", "torch::distributed::reducer", "torch.distributed.ddp", *EXCHANGES)
"""Operators that exchange or prepare it."""

GAP_US = 100.0  # between operators, up to which the host is taken to be computing rather than waiting

NCCL_SIZES = {
    "Float": 4, "Half": 2, "BFloat16": 2, "Double": 8, "Long": 8, "Int": 4, "Char": 1, "Byte": 1, "Bool": 1,
}  # fmt: skip
"""Bytes of an element by the type's name among the arguments of NCCL kernels."""


@dataclass(frozen=True)
class Communication:
    """Exchanges with other processes within steps, by beginning, and when this process computed.

    ``rows`` are their positions in the trace.
    """

    rows: Ints
    begin_us: Times
    end_us: Times
    computing: Union
    bytes: int | None
    backend: str
    on_device: bool

    @cached_property
    def exchanging(self) -> Union:
        """When anything was exchanged."""
        return union(self.begin_us, self.end_us)

    def exposed_us(self, begin: Times, end: Times) -> Times:
        """Length of each of these intervals in which it exchanged and did not compute."""
        return self.either.covers(begin, end) - self.computing.covers(begin, end)

    @cached_property
    def either(self) -> Union:
        """When it exchanged or computed."""
        return union(
            np.concatenate((self.computing.begin, self.begin_us)),
            np.concatenate((self.computing.end, self.end_us)),
        )


def ranks_of(traces: Sequence[Trace]) -> tuple[RankFacts, ...] | None:
    """Facts of each process from its trace, ``None`` for a single one that exchanges nothing.

    Ranks begin an exchange when they get there and end it together: what one of them takes longer than the
    shortest of all is its wait. That needs the traces of all ranks, with equally many exchanges.

    Args:
        traces: One for each process.
    """
    return ranks_of_calls([calls for trace in traces if (calls := calls_of(trace)) is not None])


def ranks_of_calls(every: Sequence[Calls]) -> tuple[RankFacts, ...] | None:
    """The same from the calls of each process."""
    seen = [communication_of(calls) for calls in every]
    if len(every) < 2 and not any(seen):
        return None
    waits = _waits(seen)
    return tuple(
        _facts(calls, found, calls.trace.rank if calls.trace.rank is not None else at, wait_us)
        for at, (calls, found, wait_us) in enumerate(zip(every, seen, waits, strict=True))
    )


def communication_of(calls: Calls) -> Communication | None:
    """What a process exchanged within its steps, ``None`` if nothing."""
    trace = calls.trace
    on_device = trace.category[calls.kernels] == KERNEL
    exchanging = calls.kernels_named(lambda name: name.startswith(EXCHANGES)) & on_device
    device_rows = calls.kernels[exchanging]
    if len(device_rows):
        rows = device_rows
        others = calls.kernels[on_device & ~exchanging]
        computing = union(trace.begin_us[others], trace.end_us[others])
    else:
        named = calls.named(lambda name: name.startswith(EXCHANGES))
        rows = np.sort(calls.host.rows[named & (calls.step >= 0)])
        theirs = calls.named(lambda name: name.startswith(HOST_SIDE))
        ops = calls.top & ~theirs & (calls.step >= 0)
        computing = union(calls.begin_us[ops], calls.end_us[ops], GAP_US)
    if not len(rows):
        return None
    begin, end = trace.begin_us[rows], trace.end_us[rows]
    names = [trace.names[name] for name in trace.name[rows].tolist()]
    return Communication(
        rows=rows,
        begin_us=begin,
        end_us=end,
        computing=computing,
        bytes=_bytes(trace, trace.detail[rows].tolist()),
        backend="nccl" if names[0].startswith("nccl") else names[0].partition(":")[0],
        on_device=bool(len(device_rows)),
    )


def _waits(seen: Sequence[Communication | None]) -> list[float]:
    """Microseconds that each rank spent in exchanges before the last rank joined them."""
    lengths = [found.end_us - found.begin_us for found in seen if found is not None]
    if len(lengths) < max(2, len(seen)) or len({len(each) for each in lengths}) > 1:
        return [0.0] * len(seen)
    shortest = np.min(lengths, axis=0)
    return [float((each - shortest).sum()) for each in lengths]


def _facts(calls: Calls, found: Communication | None, rank: int, wait_us: float) -> RankFacts:
    steps = calls.steps
    loads = calls.named(lambda name: name.startswith(("enumerate(DataLoader)#", "advisor_loader")))
    loads &= (calls.step >= 0) & (calls.phase == LOADER)
    loading = union(calls.begin_us[loads], calls.end_us[loads])
    if found is None:
        ops = calls.top & (calls.step >= 0)
        computing = busy = union(calls.begin_us[ops], calls.end_us[ops], GAP_US)
        exchanging_us = exposed_us = 0.0
    else:
        computing, busy, exchanging_us = found.computing, found.either, found.exchanging.length
        exposed_us = float(found.exposed_us(found.exchanging.begin, found.exchanging.end).sum())
    return RankFacts(
        rank=rank,
        step_ms=calls.step_ms,
        compute_ms=calls.per_step_ms(computing.length),
        communication_ms=calls.per_step_ms(exchanging_us),
        exposed_ms=calls.per_step_ms(exposed_us),
        idle_ms=max(0.0, calls.step_ms - calls.per_step_ms(busy.length)),
        input_wait_ms=calls.per_step_ms(loading.length),
        wait_ms=calls.per_step_ms(wait_us),
        communication_bytes=None if found is None or found.bytes is None else found.bytes // steps.count,
        backend=None if found is None else found.backend,
        device_tensors=_device_tensors(calls, found),
        step_series_ms=tuple(((steps.end_us - steps.begin_us) / 1000).tolist()) if steps.exact else (),
    )


def _device_tensors(calls: Calls, found: Communication | None) -> bool | None:
    """Whether it was tensors of a device that were exchanged; of gloo's in a run on a device a guess."""
    if found is None:
        return None
    return found.on_device or bool(len(calls.kernels))


def _bytes(trace: Trace, details: list[int]) -> int | None:
    """Bytes of all exchanges, ``None`` where one does not say."""
    total = 0
    for at in details:
        size = payload(trace.details[at]) if at >= 0 else None
        if size is None:
            return None
        total += size
    return total


def payload(detail: dict[str, Any], *, whole: bool = False) -> int | None:
    """Bytes that an exchange takes in, or gives out where ``whole`` and that was recorded."""
    elements, dtype = detail.get("In msg nelems"), detail.get("dtype")
    if whole and isinstance(detail.get("Out msg nelems"), int):
        elements = detail["Out msg nelems"]
    if isinstance(elements, int) and isinstance(dtype, str):
        size = NCCL_SIZES.get(dtype)
        return None if size is None else elements * size
    return signature(detail).input_bytes or None
