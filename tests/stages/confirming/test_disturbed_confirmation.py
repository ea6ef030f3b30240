"""A confirmation measures on when other processes disturbed some of its own."""

from itertools import count

import pytest
from confirmation_builder import STEP_S, confirmed, some_settings

from advisor.tuners.supervision.failures import Failure

COLLAPSED = Failure("interference", "thread_collapse: 2 threads had 1.1 CPUs beside 0.9 of other load")


def test_a_minute_of_other_load_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = some_settings("throughput")
    outcome = confirmed(monkeypatch, settings, STEP_S / 1.4, cut_off=[COLLAPSED] * 7)
    assert (outcome.verdict, outcome.reason) == ("change", "")


def test_one_that_was_disturbed_throughout_says_by_what(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = some_settings("throughput", budget_s=1.0)
    outcome = confirmed(
        monkeypatch, settings, STEP_S / 1.4, cut_off=[COLLAPSED] * 1000, seconds=map(float, count(0, 50))
    )
    assert outcome.verdict == "keep"
    assert outcome.reason == (
        "execution=compile was not confirmed: the budget ended before its first process that was not "
        f"disturbed ({COLLAPSED.message})"
    )


def test_what_fails_by_itself_still_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failure("user_error", "ValueError: no")
    outcome = confirmed(monkeypatch, some_settings("throughput"), STEP_S / 1.4, cut_off=[COLLAPSED, failing])
    assert outcome.reason == "the nominee failed when it was started afresh: ValueError: no"
