"""Exchanges of ranks: bandwidth by kind and size, who waited for whom, with clocks that differ."""

from typing import Any

import pytest
from trace_builder import Event, a_kernel, a_step, a_trace, an_operator, near

from advisor.profiles.facts.recorded import Collective
from advisor.profiles.traces.calls import calls_of
from advisor.profiles.traces.device.collectives import bus_factor, collectives
from advisor.profiles.traces.trace import Trace

NELEMS = 1_000_000


def an_exchange(name: str, begin: float, length: float, **facts: Any) -> Event:
    detail = {"Collective name": name, "In msg nelems": NELEMS, "Out msg nelems": NELEMS, "Group size": 4}
    detail |= {"dtype": "Float"} | facts
    return a_kernel("ncclDevKernel_Generic(ncclDevComm*)", begin, length, detail=detail)


def a_rank(*events: Event, clock: float = 0.0) -> Trace:
    """One step with these exchanges, by a clock that is ahead by so many microseconds."""
    every = [a_step(0, clock, 10_000), an_operator("aten::mm", clock + 10, 50), *events]
    return a_trace(*every)


def told(*traces: Trace) -> tuple[Collective, ...]:
    return collectives([calls for trace in traces if (calls := calls_of(trace)) is not None])


@pytest.mark.parametrize(
    ("kind", "factor"),
    [("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("broadcast", 1.0)],
)
def test_bus_bandwidth_is_that_of_nccl_tests(kind: str, factor: float) -> None:
    assert bus_factor(kind, 4) == factor


def test_exchanges_are_told_by_kind_and_size() -> None:
    (reduce, gather) = told(
        a_rank(
            an_exchange("allreduce", 1000, 400),
            an_exchange("allreduce", 2000, 200),
            an_exchange("_allgather_base", 3000, 300, **{"Out msg nelems": 4 * NELEMS}),
        )
    )
    assert (reduce.kind, reduce.calls, reduce.bytes, reduce.ranks) == ("all_reduce", 2, 4 * NELEMS, 4)
    assert reduce.ms == near(0.6) and reduce.wait_ms is None
    assert reduce.bus_bytes_per_s == pytest.approx(1.5 * 4 * NELEMS / 300e-6)
    assert (gather.kind, gather.bytes) == ("all_gather", 16 * NELEMS)
    assert gather.bus_bytes_per_s == pytest.approx(0.75 * 16 * NELEMS / 300e-6)


@pytest.mark.parametrize("clock", [0.0, 1e9, -5e8])
def test_waiting_for_the_last_rank_is_apart_from_moving_bytes_whatever_the_clocks_say(clock: float) -> None:
    first = a_rank(an_exchange("allreduce", 1000, 900))
    last = a_rank(an_exchange("allreduce", clock + 1800, 100), clock=clock)
    (found,) = told(first, last)
    assert (found.ms, found.wait_ms) == (near(0.9), near(0.8))
    assert found.bus_bytes_per_s == pytest.approx(1.5 * 4 * NELEMS / 100e-6)
    (other,) = told(last, first)
    assert (other.ms, other.wait_ms) == (near(0.1), near(0.0))


def test_what_computing_hides_is_overlapped() -> None:
    exchange = an_exchange("reduce_scatter", 1000, 400)
    (found,) = told(a_rank(exchange, a_kernel("gemm", 1300, 700)))
    assert found.kind == "reduce_scatter" and found.overlapped == pytest.approx(0.25)


def test_of_buckets_each_tells_what_computing_hides_of_it() -> None:
    steps = [a_step(0, 0, 5000), a_step(1, 5000, 5000)]
    buckets = [an_exchange("allreduce", at, 400) for at in (1000, 2000, 6000, 7000)]
    gemms = [a_kernel("gemm", 1000, 500), a_kernel("gemm", 6000, 300)]
    (found,) = told(a_trace(*steps, *buckets, *gemms))
    assert found.overlapped_in_turn == pytest.approx((700 / 800, 0.0))
    (uneven,) = told(a_trace(*steps, *buckets[:3], *gemms))
    assert uneven.overlapped_in_turn == ()


def test_without_a_size_there_is_no_bandwidth() -> None:
    kernel = a_kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 1000, 400)
    (found,) = told(a_rank(kernel))
    assert (found.kind, found.bytes, found.bus_bytes_per_s) == ("all_reduce", None, None)


def test_ranks_with_other_numbers_of_exchanges_do_not_tell_who_waited() -> None:
    one, two = an_exchange("allreduce", 1000, 400), an_exchange("allreduce", 2000, 400)
    (found,) = told(a_rank(one, two), a_rank(one))
    assert found.wait_ms is None


def test_a_process_alone_exchanges_nothing() -> None:
    assert told(a_rank()) == ()
