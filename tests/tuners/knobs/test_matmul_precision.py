from collections.abc import Iterator

import pytest
import torch
from builders import A_GPU, a_gpu_profile, a_machine, a_profile, a_run
from warm import Warm

from advisor.profiles.facts.machine import Gpu
from advisor.profiles.facts.profile import RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.matmul_precision import MatmulPrecision


@pytest.fixture
def precision_kept() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def test_a_cpu_with_bf16_units_is_offered_the_setting_that_acts_there() -> None:
    assert MatmulPrecision().choices(a_profile(a_machine(bf16_speedup=1.9))) == ["highest", "medium"]


def test_a_gpu_is_offered_all() -> None:
    assert MatmulPrecision().choices(a_gpu_profile()) == ["highest", "high", "medium"]


def test_the_programs_own_setting_comes_first_and_nothing_more_exact_after_it() -> None:
    profile = a_gpu_profile(run=RunFacts(matmul_precision="high"))
    assert MatmulPrecision().choices(profile) == ["high", "medium"]


@pytest.mark.parametrize(("own", "other"), [("high", "medium"), ("medium", "highest")])
def test_on_a_cpu_there_is_one_other_setting_that_acts(own: str, other: str) -> None:
    profile = a_profile(a_machine(bf16_speedup=1.9), run=RunFacts(matmul_precision=own))
    assert MatmulPrecision().choices(profile) == [own, other]


@pytest.mark.parametrize(
    ("speedup", "reason"), [(0.4, "0.4 times the float32 rate"), (None, "was not measured")]
)
def test_a_cpu_without_such_units_is_not(speedup: float | None, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        MatmulPrecision().choices(a_profile(a_machine(bf16_speedup=speedup)))


def test_an_old_gpu_is_not() -> None:
    machine = a_machine(cuda=True, gpus=(Gpu("Tesla V100", "GPU-1", 2**34, (7, 0)),))
    with pytest.raises(Refused, match=r"capability 7\.0"):
        MatmulPrecision().choices(a_gpu_profile(machine))


def test_the_programs_own_device_decides_among_several() -> None:
    old = Gpu("Tesla V100", "GPU-1", 2**34, (7, 0))
    machine = a_machine(cuda=True, gpus=(old, A_GPU))
    assert MatmulPrecision().choices(a_gpu_profile(machine, device="cuda:1"))[0] == "highest"


def test_a_live_switch_changes_torch_and_comes_back(precision_kept: None) -> None:
    run = a_run(matmul_precision=MatmulPrecision())
    run.process()
    run.configure({"matmul_precision": "medium"})
    assert torch.get_float32_matmul_precision() == "medium"
    assert run.unanswered() == []
    run.configure({})
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_program_that_sets_its_own_is_overruled_at_its_first_update(precision_kept: None) -> None:
    run = a_run(matmul_precision=MatmulPrecision())
    run.configure({"matmul_precision": "medium"})
    run.process()
    torch.set_float32_matmul_precision("high")
    run.optimizer(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]))
    assert torch.get_float32_matmul_precision() == "medium"


def test_the_newer_settings_of_torch_exclude_it(warm: Warm) -> None:
    code = (
        "import torch\n"
        "from advisor.tuners.knobs.matmul_precision import MatmulPrecision\n"
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'\n"
        "MatmulPrecision().process('medium')\n"
    )
    assert "Refused: the program sets fp32_precision itself" in warm.run("-c", code).stderr
