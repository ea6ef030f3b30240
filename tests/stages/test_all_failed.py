"""Runs of which no trial came to its end say against the program only what is its own."""

from pathlib import Path

import pytest

from advisor.base.errors import NoValidTrial
from advisor.result.document import Trial
from advisor.stages.all_failed import NO_TIME, NOT_TOLD, refuse_if_all_failed, why_undecided
from advisor.tuners.supervision.failures import Cause, OutOfTime


def failed(cause: Cause, message: str = "") -> Trial:
    return Trial(number=1, config={}, stage="screen", state="failed", cause=cause, message=message)


COMPLETE = Trial(number=2, config={}, stage="screen", state="complete")
TOO_LATE = failed("timeout", OutOfTime("for the rest of it").failure.message)
HUNG = failed("timeout", "no answer for 300 s in phase steps")


@pytest.mark.parametrize(
    ("tried", "why"),
    [
        ([], ""), ([COMPLETE, TOO_LATE], ""), ([HUNG], ""), ([failed("interference"), HUNG], ""),
        ([TOO_LATE, HUNG], NO_TIME), ([failed("interference")], NOT_TOLD),
    ],
)  # fmt: skip
def test_what_cut_off_all_trials_is_told_unless_they_failed_by_themselves(
    tried: list[Trial], why: str
) -> None:
    assert why_undecided(tried) == why


def test_only_trials_that_all_failed_by_themselves_end_a_run() -> None:
    for tried in ([], [COMPLETE, HUNG], [TOO_LATE, HUNG], [failed("killed"), HUNG]):
        refuse_if_all_failed(tried, "study", Path("logs"), own_loss_ends=False)
    with pytest.raises(NoValidTrial, match="timeout"):
        refuse_if_all_failed([HUNG], "study", Path("logs"), own_loss_ends=False)
