from typing import Any

import pytest
from builders import a_device, a_gpu_profile, a_rich_profile, a_root, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.recorded import OpCost, Window
from advisor.rules.contiguous_conv import ContiguousConv

NET = a_root(channels_last=False, location=Location("train.py", 10))
DENSE = ((32, 64, 56, 56), (64, 64, 3, 3))
DEPTHWISE = ((32, 64, 56, 56), (64, 1, 3, 3))


def a_conv(ms: float, shapes: tuple[tuple[int, ...], ...] = DENSE, **facts: Any) -> OpCost:
    return an_op("aten::cudnn_convolution", ms, shapes=shapes, **facts)


def a_net(*convs: OpCost, **facts: Any) -> Window:
    spent = sum(conv.self_ms for conv in convs)
    return a_window(*convs, an_op("aten::relu", 10.0 - spent), **facts)


def test_on_a_cpu_it_can_only_be_tested() -> None:
    finding = ContiguousConv().check(a_rich_profile(window=a_net(a_conv(6.0)), roots=(NET,)))
    assert finding.state is State.DIAGNOSTIC and finding.kind is Kind.HEADROOM
    assert finding.ceiling is None and finding.severity is Severity.MEDIUM
    assert finding.title.startswith("60 % of compute")
    assert finding.location == Location("train.py", 10)
    assert "memory_format=torch.channels_last)" in finding.advice
    assert "dropout masks" in finding.advice
    assert finding.knobs == ("channels_last",)


def test_on_a_gpu_the_kernels_that_reorder_are_the_ceiling() -> None:
    window = a_net(a_conv(6.0), device=a_device(layout_ms=1.5))
    finding = ContiguousConv().check(a_gpu_profile(window=window, roots=(NET,)))
    assert finding.state is State.OPPORTUNITY and finding.severity is Severity.MEDIUM
    assert finding.ceiling is not None and finding.ceiling.share == 0.15
    assert finding.ceiling.source == "timeline"


def test_a_gpu_that_reorders_nothing_passes() -> None:
    window = a_net(a_conv(6.0), device=a_device(layout_ms=0.0))
    assert ContiguousConv().check(a_gpu_profile(window=window, roots=(NET,))).state is State.PASSED


def test_without_a_model_the_kernels_that_reorder_tell_the_layout() -> None:
    window = a_net(a_conv(6.0), device=a_device(layout_ms=1.5))
    finding = ContiguousConv().check(a_gpu_profile(window=window, roots=()))
    assert finding.state is State.OPPORTUNITY
    few = a_net(a_conv(6.0), device=a_device(layout_ms=0.4))
    assert ContiguousConv().check(a_gpu_profile(window=few, roots=())).state is State.NOT_APPLICABLE


def test_volumes_get_their_own_layout() -> None:
    conv = a_conv(6.0, ((2, 16, 32, 32, 32), (16, 16, 3, 3, 3)))
    finding = ContiguousConv().check(a_rich_profile(window=a_net(conv), roots=(NET,)))
    assert "torch.channels_last_3d" in finding.advice


def test_a_model_in_channels_last_passes() -> None:
    profile = a_rich_profile(window=a_net(a_conv(6.0)), roots=(a_root(channels_last=True),))
    finding = ContiguousConv().check(profile)
    assert finding.state is State.PASSED and "already" in finding.title


def test_a_model_of_mainly_depthwise_convolutions_passes() -> None:
    window = a_net(a_conv(2.0), a_conv(4.0, DEPTHWISE))
    finding = ContiguousConv().check(a_rich_profile(window=window, roots=(NET,)))
    assert finding.state is State.PASSED and finding.title.startswith("67 %")


def test_just_below_the_threshold_passes() -> None:
    finding = ContiguousConv().check(a_rich_profile(window=a_net(a_conv(1.9)), roots=(NET,)))
    assert finding.state is State.PASSED and finding.title.startswith("19 %")


def test_convolutions_over_sequences_do_not_count() -> None:
    direct = a_conv(3.0, ((32, 64, 128), (64, 64, 3)))
    as_images = a_conv(3.0, ((32, 64, 1, 128), (64, 64, 1, 3)))
    finding = ContiguousConv().check(a_rich_profile(window=a_net(direct, as_images), roots=(NET,)))
    assert finding.state is State.PASSED and finding.title.startswith("0.0 %")


def test_without_its_facts_it_abstains() -> None:
    window = a_net(a_conv(6.0))
    assert ContiguousConv().check(a_rich_profile(window=window)).state is State.NOT_APPLICABLE
    assert ContiguousConv().check(a_gpu_profile(window=window, roots=(NET,))).state is State.NOT_APPLICABLE


def test_just_above_the_threshold_is_reported() -> None:
    assert ContiguousConv().check(a_rich_profile(window=a_net(a_conv(2.1)), roots=(NET,))).fired


@pytest.mark.parametrize(("depthwise_ms", "fires"), [(2.9, True), (3.1, False)])
def test_the_greater_part_of_the_convolutions_decides(depthwise_ms: float, fires: bool) -> None:
    window = a_net(a_conv(6.0 - depthwise_ms), a_conv(depthwise_ms, DEPTHWISE))
    assert ContiguousConv().check(a_rich_profile(window=window, roots=(NET,))).fired is fires


def test_with_few_channels_their_order_does_not_matter() -> None:
    lenet = a_conv(6.0, ((32, 1, 28, 28), (6, 1, 5, 5))), a_conv(2.0, ((32, 6, 12, 12), (16, 6, 5, 5)))
    finding = ContiguousConv().check(a_rich_profile(window=a_net(*lenet), roots=(NET,)))
    assert finding.state is State.PASSED and finding.title.startswith("0.0 %")
