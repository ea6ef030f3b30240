"""What recorded GPU traces reach of the limits of the device that they name."""

from functools import cache
from pathlib import Path

import pytest

from advisor.result.document import ProfileSummary
from advisor.runs.profile_traces import profile_traces

FOLDER = Path(__file__).parent / "gpu"
VIT = "h100_Falconsai_nsfw_image_detection__1016002.json.gz"
VLLM = "inference_vllm_prefilldecode_piecewise_graph_execution.json.gz"
COMPILED = "torch_compile_triton_trace.json.gz"


@cache
def profiled(name: str) -> ProfileSummary:
    return profile_traces([FOLDER / name], ("profile",)).profile


@pytest.mark.parametrize(
    ("name", "sheet"),
    [(VIT, "NVIDIA H100 SXM"), (COMPILED, "AMD Instinct MI300X"), (VLLM, "AMD Instinct MI300X")],
    ids=["H100", "MI300X", "without a name"],
)
def test_limits_are_those_of_the_device_in_the_trace(name: str, sheet: str) -> None:
    found = profiled(name)
    assert found.rates_from == f"data sheet of the {sheet}"
    assert found.rates["matmul_bfloat16_flops"] > 9e14


def test_products_and_kernels_are_held_against_them() -> None:
    found = profiled(COMPILED)
    (first, *_) = found.products
    assert first.roofline == pytest.approx(first.tflops / 1307.4)
    kernel = max(found.kernels, key=lambda each: each.us)
    assert kernel.op == "aten::mm" and kernel.bound == "arithmetic"
    assert kernel.roofline == pytest.approx(first.roofline, rel=0.01)
    elementwise = [each for each in profiled(VIT).kernels if each.kind == "elementwise" and each.roofline]
    assert elementwise and {each.bound for each in elementwise} == {"memory"}
    assert all(0 < each.roofline < 1 for each in elementwise if each.roofline is not None)


def test_mfu_is_the_work_of_all_products_over_the_step() -> None:
    found = profiled(COMPILED)
    work = 2e-12 * sum(each.calls * each.m * each.n * each.k * each.batch for each in found.products)
    attention = next(each for each in found.kernels if each.kind == "attention")
    assert attention.tflops is not None
    work += attention.tflops * attention.us / 1e6
    step_s = sum(found.phases_ms.values()) / 1000
    assert found.mfu == pytest.approx(work / 1307.4 / step_s, rel=0.01)
    assert found.mfu is not None and found.mfu < found.roofline_by_kind["gemm"]


def test_no_mfu_is_told_of_a_step_whose_products_hide_in_a_graph() -> None:
    assert profiled(VLLM).mfu is None
