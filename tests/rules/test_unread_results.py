from typing import Any

import pytest
from builders import a_profile

from advisor.advice.finding import Finding, Kind, State
from advisor.profiles.facts.observed import LineCalls, Location, Unread
from advisor.rules.unread_results import UnreadResults

LINE = Location("/home/me/net.py", 22, "forward")
LAST = Unread(1, 0.6, 1 / 32, ("linear",))


def check(unread: Unread | None, **facts: Any) -> Finding:
    line = LineCalls(LINE, "forward", ("linear",), 1, 0.7, 0, 0, 0.0, 1, 1, unread=unread, **facts)
    phases = {"forward": 3.0, "backward": 5.0, "other": 2.0}
    return UnreadResults().check(a_profile(phases_ms=phases, line_calls=(line,)))


def test_scores_that_an_index_leaves_out_are_named_with_the_part_that_is_used() -> None:
    finding = check(LAST)
    assert finding.title == (
        "18 % of each step computes what nothing reads: 3.1 % of `linear` at /home/me/net.py:22 is used, "
        "an index leaves out the rest"
    )
    assert "Take that part of what goes into `linear`" in finding.advice
    assert (finding.kind, finding.location) == (Kind.WASTE, LINE)


def test_what_records_a_graph_is_paid_in_backward_as_well() -> None:
    ceiling = check(LAST, graphed=True).ceiling
    assert ceiling is not None and ceiling.share == pytest.approx(0.6 * 0.8)


def test_rows_that_are_multiplied_by_zero_are_left_out_by_their_factor() -> None:
    finding = check(Unread(48, 0.6, 0.125, ("linear", "gelu"), masked=True))
    assert "48 calls, zeros erase the rest" in finding.title
    assert "index_add" in finding.advice


def test_a_small_head_and_results_that_are_read_pass() -> None:
    assert check(Unread(1, 0.05, 0.5, ("linear",))).state is State.PASSED
    assert check(None).state is State.PASSED


def test_without_lines_that_a_mode_followed_nothing_is_said() -> None:
    assert UnreadResults().check(a_profile()).state is State.NOT_APPLICABLE
