from dataclasses import replace
from typing import Any

from builders import a_profile

from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.observed import LineCalls, Location
from advisor.rules.frozen_features import FrozenFeatures

LINE = Location("train.py", 33, "main")
CALLS = LineCalls(LINE, "other", ("conv2d", "relu"), 8, 0.9, 0, 0, 0.0, 3, 3, frozen=6)


def check(line: LineCalls = CALLS, other_ms: float = 8.0, **facts: Any) -> Finding:
    phases = {"other": other_ms, "forward": 1.0, "backward": 0.5, "optimizer": 0.5}
    return FrozenFeatures().check(a_profile(phases_ms=phases, line_calls=(line,), **facts))


def test_a_backbone_that_stays_as_it_is_could_be_computed_once() -> None:
    finding = check()
    assert finding.title == (
        "72 % of each step computes with weights that learn nothing: 6 of them, at train.py:33"
    )
    assert (finding.kind, finding.severity, finding.location) == (Kind.HEADROOM, Severity.HIGH, LINE)
    assert "Where items are the same in each epoch" in finding.advice


def test_what_learns_or_is_learnt_through_passes() -> None:
    for other in ({"frozen": 0}, {"weights": 2}, {"graphed": True}):
        assert check(replace(CALLS, **other)).state is State.PASSED


def test_a_small_frozen_part_passes() -> None:
    assert check(other_ms=0.4).state is State.PASSED
    assert FrozenFeatures().check(a_profile()).state is State.NOT_APPLICABLE
