import pytest
from builders import a_served_profile

from advisor.advice.finding import Severity, State
from advisor.rules.kv_cache_off import KvCacheOff


def test_texts_computed_again_may_save_what_is_not_the_last_token() -> None:
    finding = KvCacheOff().check(a_served_profile(tokens_again=0.95, prefix=72.0, last_token=0.25))
    assert finding.state is State.OPPORTUNITY and finding.severity is Severity.MEDIUM
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.75)
    assert "72 for each new one" in finding.title and "use_cache=True" in finding.advice


def test_where_the_last_token_was_not_timed_no_ceiling_is_claimed() -> None:
    finding = KvCacheOff().check(a_served_profile(tokens_again=0.95, prefix=72.0))
    assert finding.state is State.DIAGNOSTIC and finding.ceiling is None


def test_a_last_token_that_takes_as_long_as_the_text_saves_nothing() -> None:
    finding = KvCacheOff().check(a_served_profile(tokens_again=0.95, prefix=3.0, last_token=1.02))
    assert finding.state is State.PASSED


def test_tokens_that_differ_from_call_to_call_pass() -> None:
    assert KvCacheOff().check(a_served_profile(tokens_again=0.2, prefix=8.0)).state is State.PASSED


def test_models_without_tokens_are_not_judged() -> None:
    assert KvCacheOff().check(a_served_profile()).state is State.NOT_APPLICABLE
