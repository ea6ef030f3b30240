from typing import Any

import pytest
from builders import a_profile

from advisor.advice.advise import advise
from advisor.advice.finding import Finding, State
from advisor.profiles.facts.observed import HotSpot, LineCalls, Location
from advisor.rules import RULES
from advisor.rules.tensors_from_lists import TensorsFromLists

LINE = Location("/home/me/memory.py", 25, "drawn")
PHASES = {"forward": 1.0, "backward": 1.0, "other": 8.0}


def a_line(**facts: Any) -> LineCalls:
    return LineCalls(**{
        "location": LINE, "phase": "other", "functions": ("tensor",), "calls": 2, "share": 0.9, "repeated": 0,
        "repeated_across": 0, "repeated_share": 0.0, "turns": 2, "chain": 0, "listed": 12_288, **facts,
    })  # fmt: skip


def check(*, met: float | None = None, **facts: Any) -> Finding:
    other = Location("/home/me/train.py", 3)
    spots = () if met is None else (HotSpot("other", LINE, met), HotSpot("other", other, 1 - met))
    profile = a_profile(phases_ms=PHASES, line_calls=(a_line(**facts),), hotspots=spots)
    return TensorsFromLists().check(profile)


def test_a_batch_made_of_lists_is_named_with_how_many_numbers_and_the_line() -> None:
    finding = check(met=0.5)
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.4)
    assert finding.location == LINE and "12,288 numbers" in finding.title
    assert "numpy.stack" in finding.advice


def test_where_sampling_did_not_meet_the_line_its_calls_tell() -> None:
    ceiling = check().ceiling
    assert ceiling is not None and ceiling.share == pytest.approx(0.72)


def test_a_few_numbers_or_little_time_pass() -> None:
    assert check(listed=64).state is State.PASSED
    assert check(met=0.01).state is State.PASSED


def test_it_stands_before_the_time_in_no_part_that_it_explains() -> None:
    spots = (HotSpot("other", LINE, 0.9),)
    profile = a_profile(phases_ms=PHASES, line_calls=(a_line(),), hotspots=spots)
    assert next(each.rule for each in advise(profile, RULES) if each.fired) == "tensors_from_lists"


def test_without_followed_values_nothing_is_said() -> None:
    assert TensorsFromLists().check(a_profile(phases_ms=PHASES)).state is State.NOT_APPLICABLE
