"""A profile keeps its budget, also of a program that ends again and again, or starts slowly."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from remembered_progress import Told
from replayed_program import Program
from replayed_sessions import ReplayingLauncher

from advisor.base.errors import UsageError
from advisor.base.settings import Settings, TargetRequest
from advisor.base.signals import StopRequests
from advisor.profiles.facts.profile import Profile
from advisor.runs.profile import WATCHED_S, watched_and_more
from advisor.stages.bench import open_bench
from advisor.stages.diagnosing.diagnosis import Diagnosis
from advisor.stages.launching import Caller
from advisor.tuners.trial.spec import Target

Looked = tuple[Profile, Diagnosis, float]


@pytest.fixture
def looked(tmp_path: Path) -> Callable[[Program, float], Looked]:
    """Profiles a program on paper: what came of it, and the seconds that it took."""

    def look(program: Program, budget_s: float) -> Looked:
        launcher = ReplayingLauncher(Target("script", os.devnull), tmp_path, program=program)
        settings = Settings(target=TargetRequest(kind="script", name=os.devnull), budget_s=budget_s)

        def launching(settings: Settings, folder: Path, caller: Caller) -> ReplayingLauncher:
            launcher.waiting = caller.waiting
            return launcher

        with (
            StopRequests() as stop,
            open_bench(
                settings, tmp_path, Caller(Told(), stop),
                began=0.0, launching=launching, clock=lambda: launcher.now,
            ) as bench,
        ):  # fmt: skip
            profile, diagnosis = watched_and_more(bench)
        assert not launcher.live
        return profile, diagnosis, launcher.now

    return look


@pytest.mark.parametrize(("startup_s", "budget_s"), [(40.0, 60.0), (70.0, 120.0), (100.0, 120.0)])
def test_what_would_end_after_the_budget_is_left_out(
    startup_s: float, budget_s: float, looked: Callable[[Program, float], Looked]
) -> None:
    program = Program(steps=110, startup_s=startup_s, without={})
    profile, diagnosis, seconds = looked(program, budget_s)
    assert profile.series is not None and profile.series.steps > 10
    assert seconds <= 1.2 * budget_s and any("time" in note for note in diagnosis.notes)


def test_a_program_that_starts_late_may_overrun_a_small_budget(
    looked: Callable[[Program, float], Looked],
) -> None:
    profile, _, seconds = looked(Program(startup_s=50.0, without={}), 20.0)
    assert profile.series is not None and 50.0 < seconds < WATCHED_S


def test_a_budget_in_which_a_program_cannot_be_watched_is_told_with_a_longer_one(
    looked: Callable[[Program, float], Looked],
) -> None:
    with pytest.raises(UsageError, match="not watched within the budget of 3m") as refused:
        looked(Program(startup_s=250.0, without={}), 180.0)
    assert refused.value.hint == "`--budget 9m`"
