"""Spans of time as they are written for people, and as an option takes them."""

import pytest

from advisor.base.durations import as_option, parse_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "5s"), (45.4, "45s"), (60, "1m"), (90, "1.5m"), (240, "4m"), (250, "4.2m"), (9000, "2.5h")],
)
def test_a_span_is_written_as_a_budget_is_given(seconds: float, text: str) -> None:
    assert as_option(seconds) == text
    assert parse_duration(text) == pytest.approx(seconds, rel=0.02)
