"""Knobs that the search did not come to are told among what was not tried, with the reason."""

import pytest
from builders import a_profile
from result_builder import a_trial

from advisor.result.document import Untried
from advisor.stages.assemble import _not_reached
from advisor.tuners.search.measuring import StoppedBy
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space

PRESENT = Configuration({"amp": "off", "execution": "eager", "malloc": "libc", "batch_size": 8})
SPACE = Space(
    present=PRESENT,
    own=PRESENT,
    choices={"amp": ["off", "bf16"], "execution": ["eager", "compile"], "malloc": ["libc", "libc-tuned"],
             "batch_size": [8, 16]},
    not_tried=[],
    profile=a_profile(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("stopped_by", "reason"),
    [
        ("budget", "the time budget had no room to try and confirm it"),
        ("interrupted", "the search was interrupted before"),
        ("converged", "the search did not come to it"),
    ],
)
def test_a_knob_of_which_nothing_was_tried_says_why(stopped_by: StoppedBy, reason: str) -> None:
    trials = [a_trial(0, config=dict(PRESENT)), a_trial(1, config={**PRESENT, "amp": "bf16"})]
    found = _not_reached(SPACE, trials, {"malloc"}, stopped_by)
    assert found == [Untried(knob="execution", value=None, reason=reason)]
