from dataclasses import replace

import pytest
from builders import a_loader, a_profile
from growing_profiles import a_growing_profile, read

from advisor.advice.finding import Kind, State
from advisor.profiles.facts.growing import GrowingVariable
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile, StepPhases
from advisor.rules.input_bound import InputBound
from advisor.rules.kept_batches import KeptBatches, before_workers

LINE = Location("train.py", 61)
LABELS = GrowingVariable("labels", 1.0, LINE, "batch")
FILES = read("open_files", lambda _: 24, limit=1024)


def keeping(items: int = 64_000, *, workers: int = 0, variable: GrowingVariable = LABELS) -> Profile:
    loader = a_loader(dataset_length=items, batch_size=32, num_workers=workers)
    return a_growing_profile(FILES, variables=[variable], loader=loader)


def test_the_variable_is_told_with_the_step_at_which_workers_would_end() -> None:
    finding = KeptBatches().check(keeping())
    assert (finding.state, finding.kind, finding.location) == (State.DIAGNOSTIC, Kind.RISK, LINE)
    assert finding.title == (
        "1 tensors of each batch are kept in `labels`: from workers each would hold a file open, "
        "and the limit of 1,024 would be met at step 1,000 of 2,000 steps of an epoch"
    )
    assert ".clone()" in finding.advice


@pytest.mark.parametrize(
    "profile",
    [
        keeping(items=16_000),
        keeping(variable=GrowingVariable("losses", 1.0, LINE, "tensors")),
        keeping(variable=GrowingVariable("labels", 0.1, LINE, "batch")),
    ],
    ids=["short epochs", "its own tensors", "few of them"],
)
def test_what_no_limit_meets_passes(profile: Profile) -> None:
    assert KeptBatches().check(profile).state is State.PASSED


def test_with_workers_what_they_hold_open_is_counted_elsewhere() -> None:
    for profile in (keeping(workers=2), a_profile(), a_profile(loader=a_loader())):
        assert KeptBatches().check(profile).state is State.NOT_APPLICABLE


def test_advice_that_asks_for_workers_says_what_comes_first() -> None:
    waiting = replace(keeping(), phases=StepPhases(step_ms=10.0, steps=20, input_wait_ms=6.0))
    assert "First keep copies in `labels`, `.clone()`" in InputBound().check(waiting).advice
    assert before_workers(keeping(items=16_000)) == ""
    assert before_workers(a_profile()) == ""
