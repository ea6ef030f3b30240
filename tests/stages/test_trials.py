"""Trials as they are stored and shown."""

from dataclasses import fields

from advisor.result.document import Trial
from advisor.stages.trials import AS_MEASURED, as_trial
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
