from typing import Any

import pytest
from builders import a_loader, a_profile
from growing_profiles import a_growing_profile, read

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.growing import GrowingVariable, Readings
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.rules.limit_ahead import KINDS, LimitAhead

LINE = Location("train.py", 61)
FILES = read("open_files", lambda step: 12 + step, limit=1024)


def growing(*readings: Readings, steps: int = 2000, **facts: Any) -> Profile:
    return a_growing_profile(*readings, run=RunFacts(steps_total=steps), **facts)


def test_a_limit_within_the_run_is_told_with_its_rate_its_step_and_what_grows_with_it() -> None:
    labels = GrowingVariable("labels", 1.0, LINE, "shared")
    finding = LimitAhead().check(growing(FILES, variables=[labels]))
    assert (finding.state, finding.kind, finding.severity) == (State.DIAGNOSTIC, Kind.RISK, Severity.HIGH)
    assert finding.title == (
        "1 more open files after each step: the limit of 1,024 is met at step 1,012 of 2,000 steps planned"
    )
    assert finding.location == LINE
    assert "`labels`" in finding.advice and ".clone()" in finding.advice


def test_an_epoch_is_the_least_that_is_planned() -> None:
    for items, state in ((64_000, State.DIAGNOSTIC), (32_000, State.PASSED)):
        loader = a_loader(dataset_length=items, batch_size=32)
        assert LimitAhead().check(a_growing_profile(FILES, loader=loader)).state is state


def test_the_limit_that_is_met_first_is_told() -> None:
    written = read("written", lambda step: 1e6 * step, limit=9e8)
    threads = read("threads", lambda step: step / 10, limit=150)
    assert "bytes written" in LimitAhead().check(growing(FILES, written, threads)).title


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_what_to_do(kind: str) -> None:
    finding = LimitAhead().check(growing(read(kind, lambda step: step, limit=600)))
    assert finding.fired and finding.advice


@pytest.mark.parametrize(
    "profile",
    [
        growing(FILES, steps=1000),
        growing(read("open_files", lambda step: 12 + step)),
        growing(read("open_files", lambda step: 12 + step % 50, limit=1024)),
        growing(read("memory", lambda step: 1e6 * step, limit=1e9)),
    ],
    ids=["beyond the run", "no limit", "given back", "memory, which another rule tells"],
)
def test_no_limit_ahead_passes(profile: Profile) -> None:
    assert LimitAhead().check(profile).state is State.PASSED


def test_without_a_watched_run_nothing_is_said() -> None:
    assert LimitAhead().check(a_profile()).state is State.NOT_APPLICABLE
