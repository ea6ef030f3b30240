import json
from pathlib import Path
from typing import Any

import pytest
from ranks import answers_of
from trace_builder import Event, a_call, a_kernel, a_launch, a_step, a_trace, an_annotation, an_operator, near

from advisor.profiles.traces.device.rank_times import ranks_of
from advisor.profiles.traces.ops import phases_of_trace
from advisor.profiles.traces.reading import read_trace
from advisor.profiles.traces.trace import Trace

RING = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SENT = {"In msg nelems": 1000, "dtype": "Float", "Collective name": "allreduce"}


def _exchange(begin: float, duration: float, correlation: int, name: str = RING) -> tuple[Event, Event]:
    return a_call("cudaLaunchKernelExC", 1, 2, correlation), a_kernel(
        name, begin, duration, correlation, detail=SENT
    )


def _rank(rank: int, exchange_begins: float) -> Trace:
    """A step of 1000 us that computes until 600 us and exchanges until 900 us."""
    return a_trace(
        a_step(0, 0, 1000), an_operator("aten::mm", 0, 100), *a_launch("gemm", 10, 100, 500, 1),
        *_exchange(exchange_begins, 900 - exchange_begins, 2), rank=rank,
    )  # fmt: skip


def test_one_process_that_exchanges_nothing_has_no_ranks() -> None:
    assert ranks_of([a_trace(a_step(0, 0, 10), an_operator("aten::mm", 0, 5))]) is None
    assert ranks_of([]) is None


def test_exchanges_overlap_with_computing_or_are_exposed() -> None:
    ranks = ranks_of([_rank(3, 400)])
    assert ranks is not None
    (rank,) = ranks
    assert (rank.rank, rank.step_ms, rank.compute_ms) == (3, near(1.0), near(0.5))
    assert (rank.communication_ms, rank.exposed_ms) == (near(0.5), near(0.3))
    assert rank.idle_ms == near(0.2)
    assert (rank.communication_bytes, rank.backend) == (4000, "nccl")
    assert rank.device_tensors is True
    assert rank.step_series_ms == (1.0,)


def test_who_comes_first_waits_for_who_comes_last() -> None:
    ranks = ranks_of([_rank(0, 400), _rank(1, 850)])
    assert ranks is not None
    assert [rank.wait_ms for rank in ranks] == [near(0.45), near(0.0)]


def test_ranks_without_equally_many_exchanges_are_not_compared() -> None:
    more = a_trace(
        a_step(0, 0, 1000), an_operator("aten::mm", 0, 9), *_exchange(10, 5, 1), *_exchange(20, 5, 2)
    )
    ranks = ranks_of([_rank(0, 400), more])
    assert ranks is not None
    assert [rank.wait_ms for rank in ranks] == [0.0, 0.0]
    assert [rank.rank for rank in ranks] == [0, 1]


def test_exchanges_that_do_not_say_their_size_leave_it_open() -> None:
    trace = a_trace(a_step(0, 0, 100), an_operator("aten::mm", 0, 9), a_kernel(RING, 10, 50))
    ranks = ranks_of([trace])
    assert ranks is not None
    assert ranks[0].communication_bytes is None


def test_gloo_exchanges_on_threads_of_its_own() -> None:
    reduce = an_annotation("gloo:all_reduce", 300, 400, thread=("1", "8"), detail={
        "Input Dims": [[250]], "Input type": ["float"],
    })  # fmt: skip
    loading = an_annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 900, 50)
    ranks = ranks_of([a_trace(a_step(0, 0, 1000), an_operator("aten::mm", 0, 500), reduce, loading)])
    assert ranks is not None
    (rank,) = ranks
    assert (rank.communication_ms, rank.exposed_ms) == (near(0.4), near(0.2))
    assert (rank.compute_ms, rank.input_wait_ms) == (near(0.5), near(0.05))
    assert (rank.communication_bytes, rank.backend, rank.device_tensors) == (1000, "gloo", False)


def _train(answers: Any, rank: int, folder: str) -> None:
    import torch
    import torch.distributed as distributed
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    model: Any = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(8, 64)).sum().backward()
        optimizer.step()

    step()
    step()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        for number in range(2):
            with torch.profiler.record_function(f"advisor_step#{number}"):
                step()
    profiler.export_chrome_trace(f"{folder}/{rank}.json")
    distributed.destroy_process_group()
    answers.put(rank)


@pytest.mark.slow
def test_two_real_processes_that_average_gradients(tmp_path: Path) -> None:
    assert sorted(answers_of(_train, [(rank, str(tmp_path)) for rank in range(2)], count=2)) == [0, 1]
    assert json.loads((tmp_path / "1.json").read_text())["distributedInfo"]["rank"] == 1
    traces = [read_trace(tmp_path / f"{rank}.json") for rank in range(2)]
    ranks = ranks_of(traces)
    assert ranks is not None
    assert [rank.rank for rank in ranks] == [0, 1]
    for rank in ranks:
        assert rank.backend == "gloo"
        assert rank.communication_bytes == 4 * (64 * 64 + 64)
        assert 0 <= rank.exposed_ms <= rank.communication_ms  # it may end between marks
        assert rank.communication_ms > 0
    phases = phases_of_trace(traces[0])
    assert phases is not None
    assert 0 <= phases.communication_ms <= ranks[0].exposed_ms + 1e-6  # of which a part is between steps
    assert phases.backward_ms > 0
