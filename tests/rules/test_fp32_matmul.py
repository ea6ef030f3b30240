from dataclasses import replace
from typing import Any

import pytest
from builders import A_GPU, a_gpu_profile, a_machine, a_rich_profile, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import Window
from advisor.rules.fp32_matmul import Fp32Matmul

RATES = Rates(matmul=(("float32", 50e12), ("float32_medium", 400e12)))


def a_transformer(ms: float = 6.0, **facts: Any) -> Window:
    """Half of a step of 10 ms multiplies, unless ``ms`` says otherwise; 12 ms are computed."""
    return a_window(an_op("aten::addmm", ms, **facts), an_op("aten::gelu", 12.0 - ms))


def test_float32_products_on_a_gpu_could_use_tf32() -> None:
    finding = Fp32Matmul().check(a_gpu_profile(window=a_transformer(), rates=RATES))
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.HEADROOM
    assert finding.severity is Severity.MEDIUM, "a modelled ceiling is at most medium"
    assert finding.ceiling is not None
    assert (round(finding.ceiling.share, 3), finding.ceiling.source) == (0.525, "model")
    assert 'torch.set_float32_matmul_precision("high")' in finding.advice and "TF32" in finding.advice
    assert finding.knobs == ("matmul_precision", "amp")
    assert finding.title.startswith("50 % of compute")


def test_on_a_cpu_the_measured_bf16_rate_decides() -> None:
    machine = a_machine(bf16_speedup=2.0)
    finding = Fp32Matmul().check(a_rich_profile(machine, window=a_transformer()))
    assert finding.ceiling is not None and round(finding.ceiling.share, 3) == 0.3
    assert 'torch.set_float32_matmul_precision("medium")' in finding.advice


def test_a_cpu_without_units_for_less_passes() -> None:
    finding = Fp32Matmul().check(a_rich_profile(a_machine(bf16_speedup=0.4), window=a_transformer()))
    assert finding.state is State.PASSED and finding.title.startswith("0.40 times")


def test_the_rate_at_medium_stands_above_that_of_bf16_tensors() -> None:
    rates = Rates(matmul=(("float32", 1e11), ("float32_medium", 1.02e11), ("bfloat16", 3e11)))
    finding = Fp32Matmul().check(a_rich_profile(window=a_transformer(), rates=rates))
    assert finding.state is State.PASSED, "bf16 tensors are faster here, float32 at medium is not"


def test_just_below_the_threshold_passes() -> None:
    finding = Fp32Matmul().check(a_gpu_profile(window=a_transformer(2.3), rates=RATES))
    assert finding.state is State.PASSED and finding.title.startswith("19 %")


def test_products_at_lower_precision_already_pass() -> None:
    run = RunFacts(matmul_precision="high")
    finding = Fp32Matmul().check(a_gpu_profile(window=a_transformer(), rates=RATES, run=run))
    assert finding.state is State.PASSED and "high" in finding.title


def test_products_in_16_bits_or_too_narrow_for_the_units_do_not_count() -> None:
    for facts in ({"dtype": "bfloat16"}, {"shapes": ((32,), (32, 64), (64, 1))}):
        finding = Fp32Matmul().check(a_gpu_profile(window=a_transformer(**facts), rates=RATES))
        assert finding.state is State.PASSED and finding.title.startswith("0.0 %")


def test_convolutions_on_a_gpu_count_only_where_tf32_was_switched_off() -> None:
    window = a_window(an_op("aten::cudnn_convolution", 8.0), an_op("aten::relu", 2.0))
    default = a_gpu_profile(window=window, rates=RATES)
    assert Fp32Matmul().check(default).state is State.PASSED
    assert default.run is not None
    exact = replace(default, run=replace(default.run, conv_fp32_precision="ieee"))
    finding = Fp32Matmul().check(exact)
    assert finding.state is State.OPPORTUNITY
    assert "torch.backends.cudnn.conv.fp32_precision" in finding.advice
    assert finding.knobs == ("conv_fp32_precision", "amp")


def test_convolutions_on_a_cpu_ignore_matmul_precision() -> None:
    window = a_window(an_op("aten::mkldnn_convolution", 8.0), an_op("aten::relu", 2.0))
    assert Fp32Matmul().check(a_rich_profile(window=window)).state is State.PASSED


def test_a_gpu_before_capability_8_has_no_such_units() -> None:
    machine = a_machine(gpus=(replace(A_GPU, capability=(7, 5)),))
    finding = Fp32Matmul().check(a_gpu_profile(machine, window=a_transformer(), rates=RATES))
    assert finding.state is State.NOT_APPLICABLE and "7.5" in finding.title


@pytest.mark.parametrize(
    "profile",
    [
        Profile(a_machine()),
        a_gpu_profile(window=a_transformer()),
        a_gpu_profile(window=a_transformer(), rates=RATES, run=None),
        a_gpu_profile(a_machine(), window=a_transformer(), rates=RATES),
    ],
    ids=["nothing", "no rates", "no run", "no capability"],
)
def test_without_its_facts_it_abstains(profile: Profile) -> None:
    assert Fp32Matmul().check(profile).state is State.NOT_APPLICABLE


def test_in_a_trace_the_names_of_kernels_tell_the_precision() -> None:
    facts: dict[str, Any] = {"target_kind": "trace", "run": None, "rates": RATES}
    exact = Fp32Matmul().check(a_gpu_profile(window=a_transformer(arithmetic="float32"), **facts))
    assert exact.state is State.OPPORTUNITY and exact.knobs == ("matmul_precision", "amp")
    rounded = a_gpu_profile(window=a_transformer(arithmetic="float32_medium"), **facts)
    assert Fp32Matmul().check(rounded).state is State.PASSED
    unknown = Fp32Matmul().check(a_gpu_profile(window=a_transformer(), **facts))
    assert unknown.state is State.NOT_APPLICABLE and "whose names tell" in unknown.title


def test_just_above_the_threshold_is_reported() -> None:
    assert Fp32Matmul().check(a_gpu_profile(window=a_transformer(2.5), rates=RATES)).fired


@pytest.mark.parametrize(("ratio", "fires"), [(1.08, False), (1.12, True)])
def test_the_lower_precision_must_be_worth_it(ratio: float, fires: bool) -> None:
    machine = a_machine(bf16_speedup=ratio)
    assert Fp32Matmul().check(a_rich_profile(machine, window=a_transformer())).fired is fires
