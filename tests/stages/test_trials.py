"""Trials as they are stored and shown."""

import math
from dataclasses import fields

from remembered_progress import Told

from advisor.result.document import Trial
from advisor.stages.trials import AS_MEASURED, TrialLog, as_trial
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.space.configuration import Configuration

SUMMED_UP = {"slots", "outcome", "efficiency", "against_baseline"}  # what is shown of them is computed


def test_everything_that_is_measured_is_shown_or_summed_up() -> None:
    assert {each.name for each in fields(TrialRecord)} == AS_MEASURED | SUMMED_UP


def test_a_trial_that_failed_is_shown_as_it_was_measured() -> None:
    record = TrialRecord(
        4, Configuration({"amp": "bf16"}), "search", process="shared", state="failed", cause="timeout",
        message="late", marks=["m"], applied=["amp"], refused={"x": "why"}, startup_s=1.5, log="train.log",
    )  # fmt: skip
    assert as_trial(record, sampled=True) == Trial(
        number=4, config={"amp": "bf16"}, stage="search", process="shared", state="failed", cause="timeout",
        message="late", marks=["m"], applied=["amp"], refused={"x": "why"}, startup_s=1.5, log="train.log",
    )  # fmt: skip


class Best(Told):
    """Remembers what it is told of the best so far."""

    def trial(self, number: int, text: str, best: str, left_s: float) -> None:
        self.say(best)


def test_the_best_so_far_is_unconfirmed_unless_it_is_what_was_confirmed() -> None:
    told = Best()
    trials = TrialLog(told, lambda: 0.0, 60.0)
    record = TrialRecord(1, Configuration({"num_workers": 2}), "screen")
    trials.begin(record, 0.0)
    trials.begin(record, math.log(1.5))
    trials.confirmed = math.log(1.5)
    trials.begin(record, math.log(1.5))
    trials.begin(record, math.log(1.7))
    assert told.said == ["the baseline", "1.50x (unconfirmed)", "1.50x", "1.70x (unconfirmed)"]
