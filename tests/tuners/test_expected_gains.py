"""What knobs expect of a profile: it orders a search, so its direction matters more than its size."""

from dataclasses import replace
from typing import Any

import pytest
from builders import a_gpu_profile, a_loader, a_machine, a_profile, a_rich_profile, a_share, a_window, an_op

from advisor.profiles.facts.observed import HostFacts, MemoryUse
from advisor.profiles.facts.profile import Profile, RunFacts, StepPhases
from advisor.profiles.facts.recorded import PointwiseChains
from advisor.profiles.facts.replayed import Replays
from advisor.tuners.knob import AnyKnob, Refused
from advisor.tuners.knobs import KNOBS
from advisor.tuners.knobs.batch_size import BatchSize
from advisor.tuners.knobs.channels_last import ChannelsLast
from advisor.tuners.knobs.execution import Execution
from advisor.tuners.knobs.malloc import Malloc
from advisor.tuners.knobs.num_threads import NumThreads
from advisor.tuners.knobs.num_workers import NumWorkers
from advisor.tuners.knobs.optimizer_implementation import OptimizerImplementation


@pytest.mark.parametrize("knob", KNOBS.values(), ids=KNOBS)
def test_what_is_expected_is_a_speed_or_nothing(knob: AnyKnob) -> None:
    for profile in (a_rich_profile(), a_gpu_profile()):
        try:
            values = knob.choices(profile)
        except Refused:
            continue
        for value in values[1:]:
            found = knob.expected(profile, value)
            assert found is None or found > 0


def threads(busy: float | None, **host: Any) -> Profile:
    return a_profile(phases_ms={}, run=RunFacts(num_threads=4), host=HostFacts(cpu_per_wall=busy, **host))


def test_threads_that_share_nearly_all_work_gain_by_more_and_lose_by_fewer() -> None:
    more, fewer = (NumThreads().expected(threads(3.8), value) for value in (8, 1))
    assert more is not None and 1.5 < more < 2.0
    assert fewer == pytest.approx(1 / 3.8)


def test_threads_that_work_one_after_another_gain_nothing_by_more() -> None:
    assert NumThreads().expected(threads(1.0), 8) == pytest.approx(1.0)


def test_a_replayed_step_on_one_thread_says_what_that_gives() -> None:
    assert NumThreads().expected(threads(0.6, one_thread_step_ms=4.0), 1) == pytest.approx(10 / 4)


def test_one_thread_says_nothing_of_more() -> None:
    assert NumThreads().expected(a_profile(run=RunFacts(num_threads=1)), 2) is None


def test_an_allocator_saves_what_page_faults_cost_and_no_more_than_system_time() -> None:
    def expected(faults: float | None, system: float) -> float | None:
        memory = MemoryUse(2**30, minor_faults_per_step=faults, system_share=system)
        return Malloc().expected(a_profile(phases_ms={}, memory=memory), "libc-tuned")

    assert expected(None, 0.3) is None
    assert expected(2000.0, 0.5) == pytest.approx(1 / 0.8)
    assert expected(2000.0, 0.1) == pytest.approx(1 / 0.9)


def test_a_batch_gains_by_the_part_of_a_step_that_does_not_grow() -> None:
    def expected(doubled: float, value: int) -> float | None:
        profile = a_profile(loader=a_loader(), replays=Replays(double_batch=a_share(doubled)))
        return BatchSize().expected(profile, value)

    assert expected(2.0, 256) == pytest.approx(1.0)
    assert expected(1.2, 64) == pytest.approx(2 / 1.2)
    smaller = expected(1.2, 16)
    assert smaller is not None and smaller < 1.0


def test_layouts_gain_by_the_share_of_convolutions() -> None:
    ops = an_op("aten::convolution_backward", 5.0), an_op("aten::mm", 5.0)
    some = ChannelsLast().expected(a_profile(window=a_window(*ops)), "on")
    none = ChannelsLast().expected(a_profile(window=a_window(ops[1])), "on")
    assert some is not None and some > 1.05
    assert none == 1.0
    assert ChannelsLast().expected(a_profile(), "on") is None


def test_compiling_gains_by_chains_that_fuse_and_by_calls_of_operators() -> None:
    def expected(chains_ms: float, dispatches: float) -> float | None:
        chains = PointwiseChains(chains_ms, 10.0, ("aten::add",), bytes_moved=4e6, bytes_fused=1e6)
        window = a_window(an_op(), pointwise=chains, dispatches=dispatches)
        return Execution().expected(a_profile(window=window), "compile")

    few, fused, small = expected(0.1, 10.0), expected(4.0, 10.0), expected(0.1, 1000.0)
    assert few is not None and fused is not None and small is not None
    assert 1.0 < few < 1.05 < min(fused, small)
    assert Execution().expected(a_profile(), "jit_trace") == 1.0


def test_a_fused_update_gains_by_the_share_of_updates() -> None:
    profile = a_profile(phases_ms={"optimizer": 4.0})
    assert OptimizerImplementation().expected(profile, "fused") == pytest.approx(1 / 0.72)
    assert OptimizerImplementation().expected(profile, "default") is None


def workers(cpu_share: float, cpus: int, value: int) -> float | None:
    """Items of 15 ms in batches of 32, beside 10 ms of computing."""
    profile = a_profile(
        a_machine(cpus_allowed=cpus), loader=a_loader(item_ms=15.0, cpu_share=cpu_share),
        host=HostFacts(cpu_per_wall=1.0),
    )  # fmt: skip
    return NumWorkers().expected(replace(profile, phases=StepPhases(490.0, input_wait_ms=480.0)), value)


def test_workers_gain_by_their_number_up_to_the_rest_of_the_step() -> None:
    assert workers(0.0, 16, 8) == pytest.approx(490 / 60)
    assert workers(0.0, 16, 64) == pytest.approx(490 / 10)


def test_workers_that_compute_gain_no_more_than_the_cpus_allow() -> None:
    computing = workers(1.0, 2, 8)
    assert computing == pytest.approx(490 / 245)


def test_no_workers_cost_the_time_of_items() -> None:
    assert workers(0.0, 2, 0) == pytest.approx(1.0)
