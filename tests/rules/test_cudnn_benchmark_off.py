from dataclasses import replace
from typing import Any

import pytest
from builders import a_gpu_profile, a_loader, a_machine, a_rich_profile, a_root, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.rules.cudnn_benchmark_off import CudnnBenchmarkOff

OFF = RunFacts(cudnn_benchmark=False)


def on_gpu(**facts: Any) -> Profile:
    return a_gpu_profile(**{"run": OFF, **facts})


def test_convolutions_of_constant_shape_ask_for_the_flag_and_say_what_it_costs() -> None:
    finding = CudnnBenchmarkOff().check(on_gpu())
    assert (finding.state, finding.severity, finding.kind) == (
        State.DIAGNOSTIC,
        Severity.MEDIUM,
        Kind.HEADROOM,
    )
    assert "torch.backends.cudnn.benchmark = True" in finding.advice
    assert "no longer repeat bit by bit" in finding.advice
    assert finding.knobs == ("cudnn_benchmark",)


def test_the_flag_already_on_passes() -> None:
    assert CudnnBenchmarkOff().check(on_gpu(run=RunFacts(cudnn_benchmark=True))).state is State.PASSED


def test_a_model_without_convolutions_passes() -> None:
    assert CudnnBenchmarkOff().check(on_gpu(roots=(a_root(),))).state is State.PASSED


@pytest.mark.parametrize(("conv_ms", "state"), [(0.4, State.PASSED), (0.6, State.DIAGNOSTIC)])
def test_convolutions_must_be_worth_a_try(conv_ms: float, state: State) -> None:
    window = a_window(an_op("aten::cudnn_convolution", conv_ms), an_op("aten::mm", 10 - conv_ms))
    assert CudnnBenchmarkOff().check(on_gpu(window=window)).state is state


@pytest.mark.parametrize(
    "profile",
    [
        Profile(a_machine()),
        a_rich_profile(run=OFF),
        a_gpu_profile(),
        on_gpu(run=replace(OFF, deterministic=True)),
        on_gpu(roots=()),
        on_gpu(loader=None),
        on_gpu(loader=a_loader(shapes_vary=None)),
        on_gpu(loader=a_loader(shapes_vary=True)),
    ],
    ids=["nothing", "cpu", "flag", "deterministic", "model", "loader", "shapes", "varying shapes"],
)
def test_without_a_gpu_its_facts_or_constant_shapes_nothing_is_said(profile: Profile) -> None:
    assert CudnnBenchmarkOff().check(profile).state is State.NOT_APPLICABLE
