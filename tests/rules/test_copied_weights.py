from dataclasses import replace

import pytest
from builders import a_profile

from advisor.advice.finding import Finding, Kind, State
from advisor.profiles.facts.observed import HotSpot, LineCalls, Location
from advisor.rules.copied_weights import CopiedWeights

PLACE = Location("train.py", 35, "follow")
COPY = LineCalls(
    PLACE, "other", ("clone",), calls=76, share=0.1, repeated=0, repeated_across=0, repeated_share=0.0,
    turns=76, chain=1,
)  # fmt: skip


def check(line: LineCalls, met: float = 0.6) -> Finding:
    spots = (HotSpot("other", PLACE, met), HotSpot("forward", Location("train.py", 9, "f"), 1.0))
    return CopiedWeights().check(
        a_profile(line_calls=(line,), hotspots=spots, phases_ms={"forward": 5, "other": 5})
    )


def test_a_model_that_is_copied_in_each_step_is_told_with_its_line_and_its_time() -> None:
    finding = check(COPY)
    assert (finding.state, finding.kind) == (State.OPPORTUNITY, Kind.WASTE)
    assert finding.title == "30 % of each step copies tensors one after the other: 76 at train.py:35"
    assert finding.location == PLACE and "_foreach_copy_" in finding.advice
    assert finding.ceiling is not None and finding.ceiling.low == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("line", "met"),
    [
        (replace(COPY, turns=4), 0.6),
        (replace(COPY, chain=40), 0.6),
        (replace(COPY, functions=("_foreach_lerp_",)), 0.6),
        (replace(COPY, share=0.01), 0.01),
    ],
    ids=["a few", "each needs the last", "written into", "small"],
)
def test_what_copies_little_passes(line: LineCalls, met: float) -> None:
    assert check(line, met).state is State.PASSED


def test_without_lines_or_steps_nothing_is_said() -> None:
    assert CopiedWeights().check(a_profile()).state is State.NOT_APPLICABLE
    assert CopiedWeights().check(a_profile(line_calls=(COPY,), phases=None)).state is State.NOT_APPLICABLE
