"""One process for the baseline, the close look and the search of what can be switched while it runs."""

from pathlib import Path
from typing import Any

import pytest
from replayed_program import Effect, Program, where
from replayed_sessions import ReplayedSession, ReplayingLauncher
from replaying import Replay, replayed

from advisor.tuners.knob import Value
from advisor.tuners.trial.messages import Slot

pytestmark = pytest.mark.usefixtures("own_folder", "quick_proposals")

PLACEBO: dict[str, list[Value] | None] = {"placebo": None}
WITHOUT = {"loader": 0.8, "half": 0.5, "double": 1.6, "optimizer": 0.9}


def tuned(program: Program, folder: Path, budget_s: float = 120.0) -> Replay:
    return replayed(program, folder, knobs=PLACEBO, budget_s=budget_s)


def notes_of(run: Replay) -> str:
    assert run.result.profile is not None
    return "; ".join(run.result.profile.notes)


def test_baseline_profile_and_live_search_take_one_launch(tmp_path: Path) -> None:
    run = tuned(Program(without=WITHOUT), tmp_path)
    assert run.launcher.launches == 1 and len(run.result.trials) > 1
    assert run.result.trials[1].process == "shared"
    found = run.result.profile
    assert found is not None and found.replays["optimizer_off"].estimate == pytest.approx(0.1, abs=0.02)
    assert found.replays["double_batch"].estimate == pytest.approx(2.0, rel=0.05)
    assert notes_of(run) == ""


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_a_process_that_is_not_as_before_is_not_searched_in(factor: float, tmp_path: Path) -> None:
    run = tuned(Program(without=WITHOUT, after_without=factor), tmp_path)
    assert run.launcher.launches == 2 and run.result.trials[1].process == "shared"
    assert f"its steps take {factor:.2f} times what they took before" in notes_of(run)
    assert run.result.baseline.step_ms.estimate == pytest.approx(20.0, rel=0.02)


def test_a_process_that_differs_by_no_more_than_noise_is_kept(tmp_path: Path) -> None:
    assert tuned(Program(without=WITHOUT, after_without=1.02), tmp_path).launcher.launches == 1


@pytest.mark.parametrize("steps", [220, 320])
def test_a_program_that_ends_meanwhile_is_started_again_for_what_is_missing(
    steps: int, tmp_path: Path
) -> None:
    run = tuned(Program(without=WITHOUT, steps=steps), tmp_path)
    alone = tuned(Program(without=WITHOUT), tmp_path / "endless")
    assert run.result.profile is not None and alone.result.profile is not None
    assert run.result.profile.replays.keys() >= alone.result.profile.replays.keys()
    assert 1 < run.launcher.launches <= 4


def test_a_confirmed_change_is_looked_at_again(tmp_path: Path) -> None:
    program = Program([Effect(where(placebo="on"), step=0.7)], without=WITHOUT)
    run = tuned(program, tmp_path, 300.0)
    assert run.result.recommendation.verdict == "change"
    assert run.result.profile is not None and run.result.profile.replays_after


LIVE: dict[str, list[Value] | None] = {"placebo": None, "mkldnn": None}
LOADING: dict[str, list[Value] | None] = {"num_workers": [0, 2]}
LOADED = Effect(where(num_workers=2), step=0.5)
FASTER = [Effect(where(placebo="on"), step=0.8), Effect(where(mkldnn="off"), step=0.8)]


@pytest.mark.parametrize(("knobs", "changes"), [(PLACEBO, 1), (LIVE, 2)])
def test_reduction_and_numbers_of_live_changes_take_the_process_of_the_search(
    knobs: dict[str, list[Value] | None], changes: int, tmp_path: Path
) -> None:
    run = replayed(
        Program(FASTER, without=WITHOUT),
        tmp_path,
        knobs=knobs,
        budget_s=300.0,
        interrupt_at="on fresh processes",
    )
    told = [line for line in run.said if line.startswith("confirming")]
    assert told[0].count("=") == changes and any("in one process" in line for line in run.said)
    assert run.launcher.launches == 1 + 2, "two that confirm start together"


@pytest.mark.parametrize(("knobs", "effects"), [(PLACEBO, FASTER), (LOADING, [LOADED])])
def test_a_longer_run_and_the_profile_after_the_change_take_the_last_process_of_the_pairs(
    knobs: dict[str, list[Value] | None], effects: list[Effect], tmp_path: Path
) -> None:
    program = Program(effects, without=WITHOUT)
    stopped = replayed(program, tmp_path / "1", knobs=knobs, budget_s=300.0, interrupt_at="for longer")
    run = replayed(program, tmp_path / "2", knobs=knobs, budget_s=300.0)
    found = run.result
    assert found.recommendation.verdict == "change" and found.recommendation.speedup.instances == 2
    assert found.profile is not None and found.profile.replays_after
    assert run.launcher.launches == stopped.launcher.launches
    assert knobs is not PLACEBO or run.launcher.launches == 1 + 2


def test_a_held_process_with_the_peak_of_both_settings_does_not_judge_the_smaller(tmp_path: Path) -> None:
    saving = Effect(where(placebo="on"), step=0.7, memory=0.5)
    program = Program([saving], without=WITHOUT)
    run = replayed(program, tmp_path, knobs=PLACEBO, budget_s=300.0, max_memory=2**30 - 2**28)
    assert run.result.recommendation.verdict == "change" and run.launcher.launches > 3


def test_nothing_but_the_next_process_is_there_beside_one_that_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three are only while numbers are compared, which times nothing."""
    timed: list[int] = []
    started: list[int] = []
    slot, start = ReplayedSession.slot, ReplayingLauncher.start

    def slot_counted(session: ReplayedSession, *of: Any, **options: Any) -> Slot:
        timed.append(len(session._of.live))
        return slot(session, *of, **options)

    def start_counted(launcher: ReplayingLauncher, *of: Any, **options: Any) -> ReplayedSession:
        session = start(launcher, *of, **options)
        started.append(len(launcher.live))
        return session

    monkeypatch.setattr(ReplayedSession, "slot", slot_counted)
    monkeypatch.setattr(ReplayingLauncher, "start", start_counted)
    run = replayed(Program(FASTER, without=WITHOUT), tmp_path, knobs=LIVE, budget_s=300.0)
    assert run.result.recommendation.verdict == "change"
    assert max(timed) == 2 and max(started) == 3
