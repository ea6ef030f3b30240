from builders import a_rich_profile, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
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
