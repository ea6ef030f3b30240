"""Kernels by operator and line with their rates, and in which type they multiply."""

import pytest
from trace_builder import a_function, a_launch, a_step, a_trace, an_operator, near

from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.recorded import KernelCost
from advisor.profiles.traces.calls import calls_of
from advisor.profiles.traces.device.kernel_costs import kernel_costs
from advisor.profiles.traces.ops import window_of
from advisor.profiles.traces.timeline import Timeline

SGEMM, TF32 = "ampere_sgemm_128x128_tn", "cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4"


def test_the_work_of_an_operator_is_divided_among_its_kernels() -> None:
    trace = a_trace(
        a_step(0, 0, 1000),
        a_function("train.py(7): forward", 5, 100),
        an_operator("aten::mm", 10, 40, [100, 200], [200, 300]),
        *a_launch(SGEMM, 20, 100, 30, 1),
        *a_launch("splitKreduce_kernel", 30, 130, 10, 2),
        an_operator("aten::relu", 60, 20, [1000]),
        *a_launch("vectorized_elementwise_kernel", 65, 150, 5, 3),
    )
    calls = calls_of(trace)
    assert calls is not None
    timeline = Timeline.of(calls)
    assert timeline is not None
    found = {each.name: each for each in kernel_costs(calls, timeline.chosen)}
    work, moved = 2 * 100 * 200 * 300, 4 * (100 * 200 + 200 * 300 + 100 * 300)
    assert found[SGEMM] == KernelCost(
        SGEMM, "gemm", 1.0, near(30.0), "aten::mm", Location("train.py", 7, "forward"), "float32",
        near(work / 40e-6), near(moved / 40e-6),
    )  # fmt: skip
    assert found["splitKreduce_kernel"].flops_per_s == found[SGEMM].flops_per_s
    assert found["vectorized_elementwise_kernel"].flops_per_s is None
    assert found["vectorized_elementwise_kernel"].bytes_per_s == pytest.approx(8000 / 5e-6)
    assert [each.us for each in kernel_costs(calls, timeline.chosen, 2)] == [30.0, 10.0]


@pytest.mark.parametrize(
    ("kernel", "arithmetic"),
    [(SGEMM, "float32"), (TF32, "float32_medium"), ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn", "float32_medium"),
     ("sm80_xmma_gemm_f32f32_f32f32_f32_tn", "float32"), ("Cijk_Ailk_Bljk_SB_MT64x64x16_SE", "float32"),
     ("something_else", None)],
)  # fmt: skip
def test_names_of_kernels_tell_whether_factors_were_rounded(kernel: str, arithmetic: str | None) -> None:
    window = window_of(
        a_trace(
            a_step(0, 0, 1000),
            an_operator("aten::mm", 10, 40, [64, 64], [64, 64]),
            *a_launch(kernel, 20, 100, 30, 1),
        ),
        clean_step_ms=None,
    )
    (op,) = window.ops
    assert op.arithmetic == arithmetic and op.dtype == "float32"
    assert window.work == ((arithmetic or "float32", 2.0 * 64**3),)
