from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from builders import a_loader, a_machine, a_profile, a_share
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, get_worker_info

from advisor.profiles.facts.profile import RunFacts, StepPhases
from advisor.profiles.facts.replayed import Replays
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.num_workers import NumWorkers


class WhoReads(torch.utils.data.Dataset[int]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        info = get_worker_info()
        return -1 if info is None else int(info.id)


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(4)


class OnGpu:
    def __init__(self) -> None:
        self.items = (torch.zeros(1, device="cuda"),)


def test_no_workers_means_no_worker_options() -> None:
    arguments: dict[str, Any] = {
        "num_workers": 2, "prefetch_factor": 4, "persistent_workers": True, "timeout": 5,
        "multiprocessing_context": "fork",
    }  # fmt: skip
    NumWorkers().loader(arguments, 0)
    assert arguments == {"num_workers": 0}


@pytest.mark.parametrize(("count", "readers"), [(0, {-1}), (2, {0, 1})])
def test_a_real_loader_reads_with_as_many_processes(count: int, readers: set[int]) -> None:
    arguments: dict[str, Any] = {
        "dataset": WhoReads(),
        "batch_size": 2,
        "num_workers": 1,
        "prefetch_factor": 2,
    }
    NumWorkers().loader(arguments, count)
    assert {int(reader) for batch in DataLoader(**arguments) for reader in batch} == readers


def test_the_present_number_comes_first_and_four_per_cpu_are_the_most() -> None:
    profile = a_profile(a_machine(cpus_allowed=2), loader=a_loader(num_workers=2))
    assert NumWorkers().choices(profile) == [2, 0, 1, 4, 8]


def test_an_iterable_dataset_has_at_most_one_worker() -> None:
    profile = a_profile(loader=a_loader(iterable=True))
    assert NumWorkers().choices(profile) == [0, 1]
    with pytest.raises(Refused, match=r"every record once per worker.*set num_workers in the program"):
        NumWorkers().check(2, profile)


def test_a_real_iterable_dataset_is_refused_before_it_repeats_records() -> None:
    arguments: dict[str, Any] = {"dataset": Stream(), "batch_size": 2}
    with pytest.raises(Refused, match="every record once per worker"):
        NumWorkers().loader(arguments, 2)
    assert arguments.get("num_workers") is None


def test_items_in_the_main_process_memory_are_no_obstacle() -> None:
    arguments: dict[str, Any] = {"dataset": TensorDataset(torch.zeros(4, 1))}
    NumWorkers().loader(arguments, 1)
    assert arguments["num_workers"] == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_items_on_the_gpu_cannot_be_read_by_workers() -> None:
    with pytest.raises(Refused, match="tensors on the GPU"):
        NumWorkers().loader({"dataset": OnGpu()}, 2)


def test_without_a_loader_there_is_nothing_to_prepare() -> None:
    with pytest.raises(Refused, match="no DataLoader"):
        NumWorkers().choices(a_profile())


def test_the_number_that_keeps_up_with_the_step_is_tried_first() -> None:
    profile = a_profile(
        loader=a_loader(num_workers=0, batch_size=32, item_ms=3.0),
        phases=StepPhases(step_ms=110.0, input_wait_ms=96.0),
    )
    assert NumWorkers().choices(profile)[:2] == [0, 8]


@pytest.mark.parametrize(("left_out", "speed"), [(None, 40 / 42), (0.05, 40 / 42), (0.25, 40 / 36)])
def test_without_workers_the_rest_takes_what_it_takes_without_the_loader(
    left_out: float | None, speed: float
) -> None:
    profile = a_profile(
        loader=a_loader(num_workers=4, batch_size=32, item_ms=6 / 32),
        phases=StepPhases(step_ms=40.0, input_wait_ms=4.0),
        replays=Replays() if left_out is None else Replays(loader_free=a_share(left_out)),
    )
    assert NumWorkers().expected(profile, 0) == pytest.approx(speed)


@pytest.mark.parametrize(
    ("threads", "cpu_share", "crowded"), [(2, 1.0, True), (1, 1.0, False), (2, 0.1, False)]
)
def test_workers_that_compute_where_all_cpus_have_threads_are_first_left_out(
    threads: int, cpu_share: float, crowded: bool
) -> None:
    profile = a_profile(
        a_machine(cpus_allowed=2),
        loader=a_loader(num_workers=4, batch_size=32, item_ms=6 / 32, cpu_share=cpu_share),
        phases=StepPhases(step_ms=40.0, input_wait_ms=2.0),
        run=RunFacts(num_threads=threads, samples_per_step=32.0),
    )
    knob = NumWorkers()
    assert (knob.choices(profile)[1] == 0) is crowded
    assert knob.expected(profile, 0) == pytest.approx(40 / ((0.85 if crowded else 1.0) * 38 + 6))
    assert knob.ceiling(profile) == (pytest.approx(1 - 0.85 * 0.95) if crowded else None)
    measured = replace(profile, replays=Replays(loader_free=a_share(0.3)))
    assert knob.ceiling(measured) == (pytest.approx(0.3) if crowded else None)


@pytest.mark.parametrize(("rest_ms", "first"), [(96.0, 1), (48.0, 2), (47.0, 2), (32.0, 4), (20.0, 8)])
def test_a_number_that_nearly_keeps_up_comes_before_larger_ones_and_those_before_smaller(
    rest_ms: float, first: int
) -> None:
    profile = a_profile(
        loader=a_loader(num_workers=0, batch_size=32, item_ms=3.0),
        phases=StepPhases(step_ms=96.0 + rest_ms, input_wait_ms=96.0),
    )
    assert NumWorkers().choices(profile)[1] == first
