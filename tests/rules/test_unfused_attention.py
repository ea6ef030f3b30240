from dataclasses import replace

import pytest
from builders import a_gpu_profile, a_rich_profile, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.derived.roofline import fused_attention_ms
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import Attention
from advisor.rules.unfused_attention import UnfusedAttention

LINE = Location("model.py", 55, "forward")


def a_run_with(*attentions: Attention) -> Profile:
    return a_rich_profile(window=a_window(an_op(), attentions=attentions))


def test_what_the_fused_form_saves_at_these_shapes_is_the_ceiling() -> None:
    finding = UnfusedAttention().check(
        a_run_with(
            Attention((8, 12, 1024, 64), 12.0, 4.0, fused_ms=1.0, location=LINE),
            Attention((8, 12, 64, 64), 2.0, 0.2, fused_ms=0.3),
        )
    )
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.WASTE
    assert finding.severity is Severity.HIGH
    assert finding.ceiling is not None
    assert (finding.ceiling.share, finding.ceiling.source) == (0.3, "timeline")
    assert finding.title.startswith("42 % of each step")
    assert finding.location == LINE
    assert "scaled_dot_product_attention(q, k, v)` at model.py:55" in finding.advice
    assert finding.knobs == (), "no backend can be chosen before the fused form is called"


def test_where_the_fused_form_is_no_faster_it_passes() -> None:
    finding = UnfusedAttention().check(a_run_with(Attention((8, 4, 16, 8), 2.0, 1.0, fused_ms=1.1)))
    assert finding.state is State.PASSED


def test_without_a_time_of_the_fused_form_it_is_only_mentioned() -> None:
    finding = UnfusedAttention().check(a_run_with(Attention((8, 12, 1024, 64), 12.0, 4.0)))
    assert finding.state is State.DIAGNOSTIC and finding.severity is Severity.LOW
    assert finding.ceiling is None


def test_a_small_share_passes_with_its_number() -> None:
    finding = UnfusedAttention().check(a_run_with(Attention((8, 12, 64, 64), 1.0, 0.19, fused_ms=0.0)))
    assert finding.state is State.PASSED and finding.title.startswith("1.9 %")


def test_no_written_out_attention_passes() -> None:
    assert UnfusedAttention().check(a_run_with()).title.startswith("0.0 %")


def test_on_a_gpu_that_was_recorded_elsewhere_the_fused_form_is_modelled() -> None:
    attention = Attention((8, 12, 1024, 1024, 64), 12.0, 4.0, dtype="bfloat16", location=LINE)
    rates = Rates(matmul=(("bfloat16", 1000e12),), memory_sequential=3e12)
    window = a_window(an_op(), attentions=(attention,))
    finding = UnfusedAttention().check(a_gpu_profile(window=window, rates=rates))
    # 4 * 8 * 12 * 1024 * 1024 * 64 FLOP at a quarter of 1e15/s: 0.103 ms each, 12 of them in a step of 10 ms.
    assert finding.state is State.OPPORTUNITY and finding.ceiling is not None
    assert finding.ceiling.source == "model" and finding.ceiling.share == pytest.approx(0.276, abs=0.001)
    assert fused_attention_ms(replace(attention, shape=()), rates) is None
    assert fused_attention_ms(attention, None) is None
    narrow = replace(attention, shape=(8, 12, 1, 1024, 64))
    assert fused_attention_ms(narrow, rates) == pytest.approx(12 * 2 * 96 * 2 * 1025 * 64 / 1.5e9)
