from dataclasses import replace

import pytest
from builders import A_GPU, a_gpu_profile, a_machine, a_rich_profile, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.profiles.facts.rates import Rates
from advisor.rules.amp_unused import AmpUnused

RATES = Rates(
    matmul=(("float32", 50e12), ("float32_medium", 400e12), ("bfloat16", 800e12), ("float16", 500e12))
)
WINDOW = a_window(
    an_op("aten::cudnn_convolution", 3.0),
    an_op("aten::convolution_backward", 5.0, phase="backward"),
    an_op("aten::relu", 2.0),
)


def test_float32_convolutions_on_tensor_cores_could_use_bfloat16() -> None:
    finding = AmpUnused().check(a_gpu_profile(window=WINDOW, rates=RATES))
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.HEADROOM
    assert finding.severity is Severity.MEDIUM
    assert finding.ceiling is not None
    assert (finding.ceiling.share, finding.ceiling.source) == (0.75, "model")
    assert 'torch.autocast("cuda", dtype=torch.bfloat16)' in finding.advice
    assert "changes the losses" in finding.advice
    assert finding.title == "80 % of compute is in float32 where 16 bits would do"


def test_against_products_in_tf32_less_is_left_to_gain() -> None:
    run = RunFacts(matmul_precision="high")
    finding = AmpUnused().check(a_gpu_profile(window=WINDOW, rates=RATES, run=run))
    assert finding.ceiling is not None and finding.ceiling.share == 0.4


def test_in_a_trace_kernels_tell_by_their_names_that_products_are_in_tf32() -> None:
    rounded = [replace(op, arithmetic="float32_medium") for op in WINDOW.ops]
    profile = a_gpu_profile(window=a_window(*rounded), rates=RATES, run=None, target_kind="trace")
    finding = AmpUnused().check(profile)
    assert finding.ceiling is not None and finding.ceiling.share == 0.4


def test_the_first_tensor_cores_know_float16_only() -> None:
    machine = a_machine(gpus=(replace(A_GPU, capability=(7, 0)),))
    finding = AmpUnused().check(a_gpu_profile(machine, window=WINDOW, rates=RATES))
    assert "torch.float16" in finding.advice and "GradScaler" in finding.advice


def test_a_gpu_without_tensor_cores_is_not_judged() -> None:
    machine = a_machine(gpus=(replace(A_GPU, capability=(6, 1)),))
    finding = AmpUnused().check(a_gpu_profile(machine, window=WINDOW, rates=RATES))
    assert finding.state is State.NOT_APPLICABLE and "6.1" in finding.title


def test_a_cpu_with_bf16_units_is_reported_with_its_own_rate() -> None:
    finding = AmpUnused().check(a_rich_profile(a_machine(bf16_speedup=1.6), window=WINDOW))
    assert finding.ceiling is not None and round(finding.ceiling.share, 3) == 0.3
    assert 'torch.autocast("cpu"' in finding.advice


@pytest.mark.parametrize("speedup", [0.3, 1.0, 1.09])
def test_a_cpu_without_bf16_units_passes(speedup: float) -> None:
    finding = AmpUnused().check(a_rich_profile(a_machine(bf16_speedup=speedup), window=WINDOW))
    assert finding.state is State.PASSED


def test_a_program_with_autocast_of_its_own_is_left_alone() -> None:
    profile = a_gpu_profile(window=WINDOW, rates=RATES, run=RunFacts(own_autocast=True))
    assert AmpUnused().check(profile).state is State.NOT_APPLICABLE


def test_any_product_in_16_bits_passes() -> None:
    window = a_window(an_op("aten::mm", 1.0, dtype="bfloat16"), an_op("aten::mm", 3.0))
    finding = AmpUnused().check(a_gpu_profile(window=window, rates=RATES))
    assert finding.state is State.PASSED and finding.title.startswith("25 %")


def test_a_network_without_wide_products_passes() -> None:
    lenet = an_op("aten::mkldnn_convolution", 6.0, shapes=((64, 1, 28, 28), (6, 1, 5, 5)))
    finding = AmpUnused().check(a_rich_profile(window=a_window(lenet, an_op("aten::tanh", 4.0))))
    assert finding.state is State.PASSED and finding.title.startswith("0.0 %")


def test_so_little_time_that_it_does_not_matter_passes() -> None:
    window = a_window(an_op("aten::mm", 0.3), an_op("aten::add", 9.7))
    assert AmpUnused().check(a_rich_profile(a_machine(bf16_speedup=2.0), window=window)).state is State.PASSED


@pytest.mark.parametrize(
    "profile",
    [
        Profile(a_machine()),
        a_gpu_profile(window=WINDOW),
        a_gpu_profile(a_machine(), window=WINDOW, rates=RATES),
        a_rich_profile(a_machine(bf16_speedup=None), window=WINDOW),
    ],
    ids=["nothing", "no rates", "no capability", "no rate of the CPU"],
)
def test_without_its_facts_it_abstains(profile: Profile) -> None:
    assert AmpUnused().check(profile).state is State.NOT_APPLICABLE


def test_bf16_units_just_fast_enough_are_reported() -> None:
    finding = AmpUnused().check(a_rich_profile(a_machine(bf16_speedup=1.12), window=WINDOW))
    assert finding.severity is Severity.LOW
