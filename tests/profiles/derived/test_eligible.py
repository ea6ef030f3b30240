"""Operators that could compute in fewer bits, and what is known of the gain."""

import pytest
from builders import A_GPU, a_gpu_profile, a_machine, a_profile, a_window, an_op

from advisor.profiles.derived.eligibility import (
    capability,
    castable,
    clean_step_ms,
    convolutions,
    convolved,
    dense,
    matmuls,
    share_of_compute,
    share_of_step,
    sides,
    speedup,
    spent_ms,
)
from advisor.profiles.facts.machine import Gpu
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import OpCost

Shapes = tuple[tuple[int, ...], ...]


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        ("aten::mm", ((32, 64), (64, 128)), (32, 64, 128)),
        ("aten::addmm", ((128,), (32, 64), (64, 128), (), ()), (32, 64, 128)),
        ("aten::bmm", ((8, 32, 64), (8, 64, 128)), (32, 64, 128)),
        ("aten::baddbmm", ((8, 32, 128), (8, 32, 64), (8, 64, 128)), (32, 64, 128)),
        ("aten::mv", ((32, 64), (64,)), (32, 64, 1)),
        ("mkldnn::_linear_pointwise", ((4, 8, 64), (128, 64)), (32, 64, 128)),
        ("aten::mm", (), None),
        ("aten::add", ((32, 64), (32, 64)), None),
    ],
)
def test_sides_of_a_product_follow_from_its_shapes(
    name: str, shapes: Shapes, expected: tuple[int, int, int] | None
) -> None:
    assert sides(an_op(name, shapes=shapes)) == expected


@pytest.mark.parametrize(
    ("name", "shapes", "is_dense"),
    [
        ("aten::mkldnn_convolution", ((4, 16, 32, 32), (32, 16, 3, 3)), True),
        ("aten::mkldnn_convolution", ((4, 16, 32, 32), (16, 1, 3, 3)), False),
        ("aten::cudnn_convolution", ((4, 64, 32, 32), (64, 16, 3, 3)), False),
        ("aten::convolution_backward", ((4, 32, 30, 30), (4, 16, 32, 32), (32, 16, 3, 3)), True),
        ("aten::convolution_backward", ((4, 16, 30, 30), (4, 16, 32, 32), (16, 1, 3, 3)), False),
        ("aten::convolution_backward", ((4, 64, 64, 64), (4, 128, 32, 32), (128, 64, 2, 2)), True),
        ("aten::convolution_backward", ((4, 64, 64, 64), (4, 128, 32, 32), (128, 16, 2, 2)), False),
        ("aten::cudnn_convolution_transpose", ((4, 128, 32, 32), (128, 64, 2, 2)), True),
        ("aten::cudnn_convolution", (), True),
    ],
)
def test_grouped_and_depthwise_convolutions_are_told_from_dense_ones(
    name: str, shapes: Shapes, is_dense: bool
) -> None:
    assert dense(an_op(name, shapes=shapes)) is is_dense


def test_a_convolution_knows_its_input_and_weight_forward_and_backward() -> None:
    image, weight = (4, 16, 32, 32), (32, 16, 3, 3)
    assert convolved(an_op("aten::mkldnn_convolution", shapes=(image, weight, (32,)))) == (image, weight)
    backward = an_op("aten::convolution_backward", shapes=((4, 32, 30, 30), image, weight))
    assert convolved(backward) == (image, weight)
    assert convolved(an_op("aten::mm", shapes=(image, weight))) is None


def test_only_products_of_the_step_that_fill_the_units_are_eligible() -> None:
    wide = an_op("aten::mm", 1.0, shapes=((32, 64), (64, 128)))
    narrow = an_op("aten::mm", 2.0, shapes=((32, 64), (64, 1)))
    unknown = an_op("aten::addmm", 4.0)
    loading = an_op("aten::mm", 8.0, shapes=((32, 64), (64, 128)), phase="loader")
    window = a_window(wide, narrow, unknown, loading, an_op("aten::add", 16.0))
    assert matmuls(window) == (wide, unknown)


def test_few_channels_do_not_fill_the_units() -> None:
    first = an_op("aten::mkldnn_convolution", shapes=((4, 3, 32, 32), (64, 3, 3, 3)))
    second = an_op("aten::mkldnn_convolution", shapes=((4, 64, 32, 32), (64, 64, 3, 3)))
    assert convolutions(a_window(first, second)) == (second,)


def test_autocast_casts_products_convolutions_recurrent_layers_and_attention() -> None:
    ops = [
        an_op("aten::mm"),
        an_op("aten::convolution_backward", phase="backward"),
        an_op("aten::mkldnn_rnn_layer"),
        an_op("aten::_scaled_dot_product_flash_attention_for_cpu"),
    ]
    window = a_window(*ops, an_op("aten::softmax"), an_op("aten::mm", dtype="bfloat16"))
    assert set(castable(window, "float32")) == set(ops)
    assert spent_ms(castable(window)) == 5.0


def test_shares_are_of_compute_and_of_the_clean_step() -> None:
    window = a_window(an_op(self_ms=2.0), an_op("aten::add", 6.0), clean_step_ms=20.0)
    assert share_of_compute(window, 2.0) == 0.25
    assert share_of_compute(a_window(), 2.0) == 0.0
    assert share_of_step(a_profile(window=window), 2.0) == 0.1
    assert share_of_step(a_profile(phases_ms={}, window=window), 2.0) == 0.2
    assert share_of_step(a_profile(), 2.0) == 0.0
    assert clean_step_ms(a_profile()) is None


def test_the_gpu_in_use_is_the_one_that_counts() -> None:
    old = Gpu(name="Old", uuid="GPU-1", memory_bytes=2**30, capability=(6, 1))
    machine = a_machine(gpus=(A_GPU, old))
    assert capability(a_gpu_profile(machine, device="cuda:0")) == (9, 0)
    assert capability(a_gpu_profile(machine, device="cuda:1")) == (6, 1)
    assert capability(a_gpu_profile(a_machine())) is None
    assert capability(a_profile(machine)) is None


def test_a_speedup_is_what_was_measured() -> None:
    rates = Rates(matmul=(("float32", 10.0), ("bfloat16", 30.0), ("float32_medium", 20.0)))
    profile = a_gpu_profile(rates=rates)
    assert speedup(profile, "float32_medium") == 2.0
    assert speedup(profile, "bfloat16", over="float32_medium") == 1.5
    assert speedup(profile, "float16") is None
    assert speedup(a_gpu_profile(), "bfloat16") is None


def test_without_rates_the_machine_knows_a_cpu_s_bf16_units() -> None:
    profile = a_profile(a_machine(bf16_speedup=1.7))
    assert speedup(profile, "bfloat16") == 1.7
    assert speedup(profile, "float32_medium") == 1.7
    assert speedup(profile, "float16") is None
    assert speedup(profile, "bfloat16", over="float32_medium") is None


def test_real_operators_of_a_step_are_recognised() -> None:
    import torch
    from torch import nn

    model = nn.Sequential(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 36, 16))
    with torch.profiler.profile(record_shapes=True) as recorded:
        model(torch.randn(8, 16, 8, 8)).sum().backward()
    ops = [
        OpCost(
            event.key, event.count, 1.0, 1.0, "forward", tuple(tuple(shape) for shape in event.input_shapes)
        )
        for event in recorded.key_averages(group_by_input_shape=True)
    ]
    window = a_window(*ops)
    assert {op.name for op in matmuls(window)} == {"aten::addmm", "aten::mm"}
    assert "aten::convolution_backward" in {op.name for op in convolutions(window)}
    assert all(dense(op) for op in convolutions(window))
