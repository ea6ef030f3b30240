from collections.abc import Iterator

import pytest
import torch
from builders import a_gpu_profile, a_machine, a_profile, a_run

from advisor.profiles.facts.profile import RunFacts
from advisor.profiles.facts.recorded import OpCost, Window
from advisor.tuners.knob import Change, Refused
from advisor.tuners.knobs.num_threads import NumThreads


@pytest.fixture
def threads_kept() -> Iterator[int]:
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


def test_powers_of_two_and_all_cpus_are_tried() -> None:
    profile = a_profile(a_machine(cpus_allowed=6, physical_cores=6), run=RunFacts(num_threads=6))
    assert NumThreads().choices(profile) == [6, 1, 2, 4]


def test_second_hardware_threads_are_tried_only_all_together() -> None:
    profile = a_profile(a_machine(cpus_allowed=16, physical_cores=8), run=RunFacts(num_threads=8))
    assert NumThreads().choices(profile) == [8, 1, 2, 4, 16]


def test_torchs_default_is_present_where_no_run_was_seen() -> None:
    assert NumThreads().present(a_profile(a_machine(torch_default_threads=4))) == 4


def test_one_cpu_leaves_nothing_to_try() -> None:
    profile = a_profile(a_machine(cpus_allowed=1, physical_cores=8), run=RunFacts(num_threads=1))
    with pytest.raises(Refused, match="one CPU"):
        NumThreads().choices(profile)


def test_a_model_on_the_gpu_is_left_alone() -> None:
    with pytest.raises(Refused, match="on the GPU"):
        NumThreads().choices(a_gpu_profile())


def test_a_live_switch_changes_torch_and_comes_back(threads_kept: int) -> None:
    torch.set_num_threads(1)
    run = a_run({"num_threads": 1}, num_threads=NumThreads())
    run.process()
    run.configure({"num_threads": 2})
    assert torch.get_num_threads() == 2
    assert run.unanswered() == []
    run.configure({})
    assert torch.get_num_threads() == 1


def test_a_program_that_sets_its_own_number_is_overruled_at_its_first_update(threads_kept: int) -> None:
    run = a_run({"num_threads": 1}, num_threads=NumThreads())
    run.configure({"num_threads": 2})
    run.process()
    torch.set_num_threads(1)
    run.optimizer(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]))
    assert torch.get_num_threads() == 2


def test_the_environment_can_be_set_instead() -> None:
    assert NumThreads().change(2) == Change("torch.set_num_threads(2)", {"OMP_NUM_THREADS": "2"})


def one_thread(*ops: OpCost, with_shapes: bool = True) -> float | None:
    window = Window(
        3, 11.0, 10.0, 0.1, 0.0, 100.0, sum(op.self_ms for op in ops), ops=ops, with_shapes=with_shapes
    )
    profile = a_profile(a_machine(cpus_allowed=4), run=RunFacts(num_threads=1), window=window)
    return NumThreads().expected(profile, 2)


def test_one_thread_gains_by_what_its_operators_divide() -> None:
    small = OpCost("aten::mul", calls=1000.0, self_ms=5.0, total_ms=5.0, shapes=((8,),))
    large = OpCost("aten::addmm", calls=1.0, self_ms=5.0, total_ms=5.0, shapes=((64, 512), (512, 512)))
    assert one_thread(small) == 1.0
    assert one_thread(small, large) == pytest.approx(1 / 0.75)


def test_short_calls_over_large_tensors_divide_too() -> None:
    op = OpCost("aten::add", calls=500.0, self_ms=10.0, total_ms=10.0, shapes=((64, 512), (64, 512)))
    assert one_thread(op) == pytest.approx(2.0)


def test_where_no_sizes_were_recorded_one_thread_tells_nothing() -> None:
    assert one_thread(with_shapes=False) is None
