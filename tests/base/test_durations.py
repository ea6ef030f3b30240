"""Spans of time as they are written for people, and as an option takes them."""

import pytest

from advisor.base.durations import as_option, parse_duration, parse_latency
from advisor.base.errors import UsageError


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "5s"), (45.4, "45s"), (60, "1m"), (90, "1.5m"), (240, "4m"), (250, "4.2m"), (9000, "2.5h")],
)
def test_a_span_is_written_as_a_budget_is_given(seconds: float, text: str) -> None:
    assert as_option(seconds) == text
    assert parse_duration(text) == pytest.approx(seconds, rel=0.02)


@pytest.mark.parametrize(("text", "seconds"), [("20ms", 0.02), ("0.5s", 0.5), ("1 s", 1.0), ("300us", 3e-4)])
def test_a_time_of_a_request_has_a_unit(text: str, seconds: float) -> None:
    assert parse_latency(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["20", "0ms", "-1s", "2h", "1s20ms", "soon", ""])
def test_what_is_no_time_of_a_request_is_refused_with_one_that_is(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_latency(text)
    assert refused.value.hint is not None and "20ms" in refused.value.hint
