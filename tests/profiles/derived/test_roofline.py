"""How near kernels and steps come to the limits of a device."""

from dataclasses import replace

import pytest
from builders import a_device, a_gpu_profile, a_window, an_op

from advisor.profiles.derived.roofline import (
    least_ms,
    product_reached,
    reached,
    reached_by_kind,
    utilisation,
)
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import KernelCost, Product

RATES = Rates(matmul=(("bfloat16", 100e12), ("float32", 20e12)), memory_sequential=1e12)


def a_kernel(flops: float | None, moved: float | None, us: float = 10.0, kind: str = "gemm") -> KernelCost:
    return KernelCost("k", kind, 1.0, us, dtype="bfloat16", flops_per_s=flops, bytes_per_s=moved)


@pytest.mark.parametrize(
    ("flops", "moved", "found"),
    [
        (50e12, 0.1e12, (0.5, "arithmetic")),
        (10e12, 0.6e12, (0.6, "memory")),
        (None, 0.6e12, (0.6, "memory")),
        (None, None, None),
    ],
)
def test_the_nearer_limit_counts(
    flops: float | None, moved: float | None, found: tuple[float, str] | None
) -> None:
    assert reached(a_kernel(flops, moved), RATES) == found
    assert reached(a_kernel(flops, moved), None) is None


def test_kernels_of_a_kind_count_by_their_time() -> None:
    kernels = [a_kernel(50e12, None, 30.0), a_kernel(10e12, None, 10.0), a_kernel(None, None, 99.0)]
    kernels.append(a_kernel(None, 0.7e12, 5.0, "elementwise"))
    shares = reached_by_kind(kernels, RATES)
    assert shares == pytest.approx({"gemm": (0.5 * 30 + 0.1 * 10) / 40, "elementwise": 0.7})


def test_a_product_is_held_against_the_peak_of_its_type() -> None:
    product = Product("aten::mm", 1, 1, 1, 1, "bfloat16", 1.0, 10.0, tflops=25.0)
    assert product_reached(product, RATES) == 0.25
    assert product_reached(replace(product, dtype="float64"), RATES) is None


def test_mfu_is_the_time_of_the_arithmetic_at_its_peaks_over_the_step() -> None:
    # of a step of 10 ms: 1e11 FLOP at 100 TFLOP/s are 1 ms, 2e10 at 20 are another
    device = a_device(heaviest=(a_kernel(50e12, None),))
    window = a_window(device=device, work=(("bfloat16", 1e11), ("float32", 2e10)))
    assert utilisation(a_gpu_profile(window=window, rates=RATES)) == pytest.approx(0.2)
    assert utilisation(a_gpu_profile(window=window)) is None


def test_no_mfu_is_told_where_sizes_of_most_products_are_not_known() -> None:
    hidden = a_device(heaviest=(a_kernel(50e12, None), a_kernel(None, None, 90.0)))
    window = a_window(device=hidden, work=(("bfloat16", 1e11),))
    assert utilisation(a_gpu_profile(window=window, rates=RATES)) is None


def test_the_least_time_of_an_operator_is_the_larger_of_both() -> None:
    op = an_op(flops=1e11, bytes=1e8, dtype="bfloat16", calls=2.0)
    assert least_ms(op, RATES, "bfloat16") == pytest.approx(2.0)
    assert least_ms(replace(op, bytes=5e9), RATES, "bfloat16", 1.1) == pytest.approx(11.0)
    assert least_ms(op, RATES, "float64") is None
