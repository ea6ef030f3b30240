"""Types of what operators multiply, where a trace was recorded without shapes."""

import pytest
from builders import a_gpu_profile, a_window
from trace_builder import (
    a_launch,
    a_node,
    a_step,
    a_trace,
    an_annotation,
    an_operator,
)

from advisor.advice.finding import State
from advisor.profiles.facts.recorded import OpCost
from advisor.profiles.traces.flops import flops
from advisor.profiles.traces.ops import window_of
from advisor.profiles.traces.signatures import Signature
from advisor.profiles.traces.trace import Trace
from advisor.rules import RULES


def _launching(kernel: str, *shapes: list[int]) -> Trace:
    """One product of one step, with shapes or without."""
    return a_trace(
        a_step(0, 0, 500), an_operator("aten::mm", 10, 50, *shapes), *a_launch(kernel, 20, 30, 40, 1)
    )


def _product(trace: Trace) -> OpCost:
    (op,) = [each for each in window_of(trace, clean_step_ms=None).ops if each.name == "aten::mm"]
    return op


@pytest.mark.parametrize(
    ("kernel", "dtype", "arithmetic"),
    [
        ("volta_sgemm_64x64_nt", "float32", "float32"),
        ("volta_scudnn_128x64_relu_medium_nn_v1", "float32", "float32"),
        ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>", "float32", None),
        ("ampere_tf32_s1688gemm_128x128_nn", "float32", "float32_medium"),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", "float16", None),
        ("volta_h884gemm_128x128_ldg8_nn", "float16", None),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_tn", "bfloat16", None),
        ("Cijk_Alik_Bljk_BBS_BH_Bias", "bfloat16", None),
        ("Cijk_Alik_Bljk_HHS_BH", "float16", None),
        ("splitKreduce_kernel", None, None),
    ],
)
def test_without_shapes_the_names_of_kernels_tell_types(
    kernel: str, dtype: str | None, arithmetic: str | None
) -> None:
    found = _product(_launching(kernel))
    assert (found.dtype, found.arithmetic) == (dtype, arithmetic)


def test_a_recorded_type_stands_whatever_the_kernel_is_called() -> None:
    assert _product(_launching("volta_h884gemm_128x128_ldg8_nn", [8, 8], [8, 8])).dtype == "float32"


@pytest.mark.parametrize("rule", ["amp_unused", "fp32_matmul", "misaligned_matmul", "double_precision"])
def test_nothing_is_said_of_types_that_nobody_knows(rule: str) -> None:
    op = OpCost("aten::mm", calls=10.0, self_ms=5.0, total_ms=5.0, phase="forward")
    finding = RULES[rule].check(a_gpu_profile(window=a_window(ops=(op,))))
    assert finding.state is State.NOT_APPLICABLE and "record_shapes=True" in finding.title


def test_what_comes_before_gradients_are_cleared_for_backward_is_forward() -> None:
    window = window_of(
        a_trace(
            a_step(0, 0, 900),
            an_annotation("enumerate(DataLoader)#_Iter.__next__", 0, 50),
            an_operator("aten::mm", 100, 50), an_annotation("Optimizer.zero_grad#SGD.zero_grad", 200, 50),
            a_node("MmBackward0", 300, 100, sequence=1), an_annotation("Optimizer.step#SGD.step", 500, 50),
            an_operator("aten::add", 600, 50),
        ),
        clean_step_ms=None,
    )  # fmt: skip
    assert {op.name: op.phase for op in window.ops if op.name in ("aten::mm", "aten::add")} == {
        "aten::mm": "forward", "aten::add": "other",
    }  # fmt: skip


def test_a_convolution_whose_stride_was_not_recorded_has_no_known_arithmetic() -> None:
    signature = Signature(((8, 16, 32, 32), (32, 16, 3, 3)), ("float32", "float32"))
    assert flops("aten::cudnn_convolution", signature) is None
