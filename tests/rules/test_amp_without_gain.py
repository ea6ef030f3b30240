from dataclasses import replace
from typing import Any

import pytest
from builders import a_gpu_profile, a_machine, a_rich_profile, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.profiles.facts.rates import Rates
from advisor.rules.amp_without_gain import AmpWithoutGain

OWN = RunFacts(own_autocast=True)


def a_run(cast_ms: float, low_ms: float, bf16_speedup: float | None = 2.0, **facts: Any) -> Profile:
    """A CPU program under autocast, computing 10 ms in a step of 10 ms."""
    window = a_window(
        an_op("aten::mm", low_ms, dtype="bfloat16"), an_op("aten::add", 10.0 - low_ms), cast_ms=cast_ms
    )
    return replace(a_rich_profile(a_machine(bf16_speedup=bf16_speedup), window=window, run=OWN), **facts)


def test_casts_that_cost_more_than_products_save_are_reported() -> None:
    finding = AmpWithoutGain().check(a_run(cast_ms=3.0, low_ms=1.0))
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.WASTE
    assert finding.severity is Severity.MEDIUM
    assert finding.ceiling is not None and finding.ceiling.share == 0.2, "3 ms of casts less 1 ms saved"
    assert finding.title == "30 % of compute converts between float32 and 16 bits"
    assert "without `torch.autocast`" in finding.advice and "more memory" in finding.advice


def test_casts_that_pay_pass_however_many_they_are() -> None:
    finding = AmpWithoutGain().check(a_run(cast_ms=2.0, low_ms=4.0))
    assert finding.state is State.PASSED and finding.title.startswith("20 %")


def test_just_below_the_threshold_passes() -> None:
    assert AmpWithoutGain().check(a_run(cast_ms=0.98, low_ms=0.0)).state is State.PASSED


def test_where_16_bits_are_slower_the_loss_counts_too() -> None:
    finding = AmpWithoutGain().check(a_run(cast_ms=0.5, low_ms=5.0, bf16_speedup=0.4))
    assert finding.ceiling is not None and finding.ceiling.share == 0.35
    assert finding.title.startswith("0.4 times the float32 rate in bfloat16")


def test_where_tf32_gives_the_rate_already_few_casts_are_too_many() -> None:
    rates = Rates(matmul=(("float32", 1e12), ("float32_medium", 8e12), ("bfloat16", 8e12)))
    window = a_window(an_op("aten::mm", 4.0, dtype="bfloat16"), an_op("aten::add", 6.0), cast_ms=0.6)
    high = replace(OWN, matmul_precision="high")
    finding = AmpWithoutGain().check(a_gpu_profile(window=window, rates=rates, run=high))
    assert finding.state is State.OPPORTUNITY and finding.severity is Severity.LOW
    exact = AmpWithoutGain().check(a_gpu_profile(window=window, rates=rates, run=OWN))
    assert exact.state is State.PASSED, "against float32 at full precision, the same casts pay"


def test_without_rates_the_share_of_casts_decides() -> None:
    assert AmpWithoutGain().check(a_run(3.0, 1.0, bf16_speedup=None)).state is State.OPPORTUNITY
    assert AmpWithoutGain().check(a_run(0.9, 1.0, bf16_speedup=None)).state is State.PASSED


RATES = Rates(
    matmul=(("float32", 1e11), ("bfloat16", 2e11), ("float32_medium", 1e11)), memory_sequential=1e10
)


def a_product(flops: float, bytes: float = 0.0, cast_ms: float = 0.6) -> Profile:
    """Casts beside a product that takes 4 ms of 10 ms."""
    product = an_op("aten::mm", 4.0, dtype="bfloat16", calls=2.0, flops=flops, bytes=bytes)
    window = a_window(product, an_op("aten::add", 6.0), cast_ms=cast_ms)
    return a_run(cast_ms, 4.0, window=window, rates=RATES)


def test_products_that_run_at_the_full_rate_save_what_the_rates_say() -> None:
    finding = AmpWithoutGain().check(a_product(flops=4e8))
    assert (finding.state, finding.title[:5]) == (State.PASSED, "6.0 %")


def test_small_products_save_only_their_arithmetic() -> None:
    finding = AmpWithoutGain().check(a_product(flops=1e7))
    assert finding.state is State.OPPORTUNITY
    assert finding.title.startswith("1.02 times the float32 speed in bfloat16, and 6.0 % of compute")
    assert finding.evidence["saved_ms"] == 0.1, "two of 1e7 operations: 0.2 ms in float32, 0.1 ms in 16 bits"
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.05)


def test_bytes_count_where_memory_is_what_they_wait_for() -> None:
    finding = AmpWithoutGain().check(a_product(flops=1e7, bytes=1e6))
    assert finding.evidence["saved_ms"] == 0.2, "2 MB in place of 1 MB, twice"


def test_a_product_saves_no_more_than_its_own_time_at_the_ratio_of_the_rates() -> None:
    finding = AmpWithoutGain().check(a_product(flops=1e12, cast_ms=5.0))
    assert finding.evidence["saved_ms"] == 4.0


def test_a_program_without_autocast_is_not_judged() -> None:
    assert AmpWithoutGain().check(a_run(3.0, 1.0, run=RunFacts())).state is State.NOT_APPLICABLE
    assert AmpWithoutGain().check(a_run(3.0, 1.0, run=None)).state is State.NOT_APPLICABLE


def test_just_above_the_threshold_is_reported() -> None:
    assert AmpWithoutGain().check(a_run(cast_ms=1.05, low_ms=0.0)).fired


@pytest.mark.parametrize(("ratio", "fires"), [(1.05, True), (1.15, False)])
def test_few_casts_count_only_where_16_bits_give_nothing(ratio: float, fires: bool) -> None:
    assert AmpWithoutGain().check(a_run(cast_ms=0.6, low_ms=2.0, bf16_speedup=ratio)).fired is fires
