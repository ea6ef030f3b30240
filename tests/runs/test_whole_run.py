"""The sequence of a whole run on a program that is replayed: its stages, its verdicts, and what limits it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import a_machine, a_rich_profile
from replayed_program import Effect, Program, where
from replaying import replayed

from advisor.base.errors import UsageError
from advisor.result.conditions import verdict_after
from advisor.tuners.knob import Value
from advisor.tuners.supervision.failures import Failure

pytestmark = pytest.mark.usefixtures("own_folder")

FASTER = Effect(where(num_workers=2), step=0.6)
PLACEBO: dict[str, list[Value] | None] = {"placebo": None}
WORKERS: dict[str, list[Value] | None] = {"num_workers": [0, 1, 2]}


def index_of(said: Sequence[str], text: str) -> int:
    """Where something was first said."""
    return next(place for place, line in enumerate(said) if text in line)


def test_a_change_that_gains_is_recommended_and_the_stages_come_in_order(tmp_path: Path) -> None:
    run = replayed(Program([FASTER]), tmp_path, knobs=WORKERS, out=tmp_path / "out")
    found = run.result.recommendation
    assert found.verdict == "change" and found.config == {"num_workers": 2}
    assert found.speedup.low < 1 / 0.6 < found.speedup.high and found.numerics == "identical"
    stages = [
        "running it unchanged", "trial 1", "confirming num_workers=2 on fresh", "process 2",
        "comparing the numbers", "for longer",
    ]  # fmt: skip
    places = [index_of(run.said, stage) for stage in stages]
    assert places == sorted(places)
    assert [trial.stage for trial in run.result.trials] == ["baseline", "screen", "screen", "confirm"]
    budget = run.result.budget
    assert (budget.stopped_by, budget.trials) == ("converged", 4)
    assert budget.seconds == pytest.approx(run.launcher.now, abs=0.01)
    assert run.result.target.launches == run.launcher.launches == len(run.launcher.configs)
    written = json.loads((tmp_path / "out" / "result.json").read_text())
    assert written["recommendation"]["config"] == {"num_workers": 2} and len(written["trials"]) == 4
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize("seed", range(5))
def test_a_change_that_does_nothing_is_not_recommended(seed: int, tmp_path: Path) -> None:
    result = replayed(Program(seed=seed), tmp_path, knobs=PLACEBO).result
    assert result.recommendation.verdict == "keep"
    assert result.recommendation.config == result.baseline.config == {"placebo": "off"}
    assert [trial.number for trial in result.trials][:2] == [0, 1]
    assert result.trials[1].applied == ["placebo"]
    assert result.baseline.throughput.unit == "samples/s"
    assert result.baseline.throughput.estimate == pytest.approx(32 / 0.02, rel=0.02)


def test_a_run_is_the_same_again_with_the_same_seed(tmp_path: Path) -> None:
    first, again = (replayed(Program([FASTER]), tmp_path, knobs=WORKERS) for _ in range(2))
    assert first.said == again.said and first.launcher.now == again.launcher.now
    assert first.result.recommendation == again.result.recommendation


@pytest.mark.parametrize(("least", "verdict"), [(0.01, "change"), (0.2, "keep")])
def test_a_gain_counts_from_the_least_that_was_asked_for(least: float, verdict: str, tmp_path: Path) -> None:
    program = Program([Effect(where(placebo="on"), step=0.9)])
    found = replayed(program, tmp_path, knobs=PLACEBO, min_gain=least).result.recommendation
    assert found.verdict == verdict
    assert verdict == "change" or "placebo=on" in found.reason


def test_what_adds_nothing_to_another_change_is_taken_out(tmp_path: Path) -> None:
    program = Program([FASTER, Effect(where(placebo="on", num_workers=0), step=0.8)])
    found = replayed(program, tmp_path, knobs={**PLACEBO, **WORKERS}).result.recommendation
    assert found.verdict == "change" and found.config == {"num_workers": 2, "placebo": "off"}


def test_two_changes_are_confirmed_together_and_credited_apart(tmp_path: Path) -> None:
    program = Program([FASTER, Effect(where(placebo="on"), step=0.8)])
    run = replayed(program, tmp_path, knobs={**PLACEBO, **WORKERS}, budget_s=300.0)
    found = run.result.recommendation
    assert found.config == {"num_workers": 2, "placebo": "on"}
    assert found.speedup.estimate == pytest.approx(1 / 0.48, rel=0.03)
    assert {change.knob for change in found.changes} == {"num_workers", "placebo"}
    assert any("taking 1 change out" in line for line in run.said), "the search saw the other alone"


def test_a_change_whose_numbers_drift_is_not_recommended(tmp_path: Path) -> None:
    program = Program([Effect(where(num_workers=2), step=0.6, loss=0.1)])
    run = replayed(program, tmp_path, knobs={"num_workers": [0, 2]})
    assert run.result.recommendation.verdict == "keep"
    assert "the numbers drift" in run.result.recommendation.reason
    assert not any("for longer" in line or "process 3" in line for line in run.said)


def test_what_a_program_refuses_is_no_trial_and_is_told_with_its_reason(tmp_path: Path) -> None:
    declines = Effect(where(num_workers=2), refuses=("num_workers", "its dataset cannot be shared"))
    result = replayed(Program([declines]), tmp_path, knobs={"num_workers": [0, 2]}).result
    assert [trial.number for trial in result.trials] == [0]
    (left_out,) = result.not_tried
    assert (left_out.knob, left_out.value) == ("num_workers", 2)
    assert left_out.reason == "its dataset cannot be shared"


def test_a_fixed_setting_holds_for_every_trial(tmp_path: Path) -> None:
    run = replayed(Program(), tmp_path, knobs=PLACEBO, fixed={"num_workers": 1})
    assert all(trial.config["num_workers"] == 1 for trial in run.result.trials)
    assert all(config["num_workers"] == 1 for config in run.launcher.configs)


def test_a_fixed_setting_that_the_program_refuses_ends_the_run(tmp_path: Path) -> None:
    declines = Effect(where(num_workers=1), refuses=("num_workers", "its dataset cannot be shared"))
    with pytest.raises(UsageError, match="num_workers"):
        replayed(Program([declines]), tmp_path, knobs=PLACEBO, fixed={"num_workers": 1})


def test_no_more_trials_are_begun_than_asked_for(tmp_path: Path) -> None:
    result = replayed(Program(), tmp_path, knobs={"num_workers": [0, 1, 2, 3]}, trials=3).result
    assert [trial.number for trial in result.trials if trial.stage != "confirm"] == [0, 1, 2]
    assert result.budget.stopped_by == "trials"


@pytest.mark.parametrize(("budget_s", "verdict"), [(20.0, "keep"), (60.0, "change")])
def test_the_budget_ends_a_search_and_a_confirmation(budget_s: float, verdict: str, tmp_path: Path) -> None:
    large = a_rich_profile(a_machine(cpus_allowed=64, physical_cores=64))
    assert large.loader is not None
    large = replace(large, loader=replace(large.loader, fixed="its dataset is iterable"))
    program = Program([Effect(where(num_workers=1), step=0.6)], startup_s=3.0, profile=large)
    knobs: dict[str, list[Value] | None] = {"num_workers": list(range(40))}
    run = replayed(program, tmp_path, knobs=knobs, budget_s=budget_s)
    assert run.result.budget.stopped_by == "budget" and len(run.result.trials) < 8
    assert run.result.recommendation.verdict == verdict
    assert verdict == "change" or "could not be confirmed" in run.result.recommendation.reason
    notes = run.result.profile.notes if run.result.profile is not None else []
    assert any("processes of their own: its dataset is iterable" in note for note in notes)
    assert run.launcher.now < 1.2 * budget_s


def test_where_the_baseline_took_the_budget_nothing_is_begun_that_runs_far_beyond_it(tmp_path: Path) -> None:
    run = replayed(Program(step_s=3.0, startup_s=8.0), tmp_path, knobs=WORKERS, budget_s=58.0)
    assert run.result.recommendation.verdict == "keep" and run.result.budget.stopped_by == "budget"
    assert [trial.number for trial in run.result.trials] == [0] and run.launcher.now < 1.2 * 58.0
    assert "left no time to try a change" in run.result.recommendation.reason
    assert {entry.value for entry in run.result.not_tried} == {1, 2}
    assert "findings rest on the baseline alone" in " ".join(run.result.profile.notes)


def test_a_budget_below_one_baseline_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one baseline run takes") as refused:
        replayed(Program(step_s=5.0), tmp_path, knobs=WORKERS, budget_s=30.0)
    assert refused.value.where == "--budget" and refused.value.hint


def test_a_short_program_is_measured_by_whole_launches(tmp_path: Path) -> None:
    run = replayed(Program([FASTER], steps=60), tmp_path, knobs={"num_workers": [0, 2]}, budget_s=300.0)
    assert run.result.recommendation.config == {"num_workers": 2}
    assert run.launcher.launches > 15


def test_memory_is_what_counts_where_it_was_asked_for(tmp_path: Path) -> None:
    program = Program([Effect(where(num_workers=2), memory=0.5, step=1.25)])
    run = replayed(program, tmp_path, knobs={"num_workers": [0, 2]}, objective="memory")
    found = run.result.recommendation
    assert found.verdict == "change" and found.speedup.estimate == pytest.approx(2.0, rel=0.01)
    assert found.time_ratio is not None and found.time_ratio.estimate == pytest.approx(0.8, rel=0.05)


@pytest.mark.parametrize(("planned", "verdict"), [(100, "keep"), (100_000, "change")])
def test_compiling_must_pay_within_the_steps_that_are_planned(
    planned: int, verdict: str, tmp_path: Path
) -> None:
    program = Program([Effect(where(execution="compile"), step=0.5)])
    knobs: dict[str, list[Value] | None] = {"execution": ["eager", "compile"]}
    run = replayed(program, tmp_path, knobs=knobs, budget_s=600.0, steps_planned=planned)
    assert run.result.recommendation.verdict == verdict
    assert verdict == "change" or f"within {planned} steps" in run.result.recommendation.reason


def test_why_batch_sizes_take_processes_of_their_own_is_told(tmp_path: Path) -> None:
    run = replayed(Program([]), tmp_path, knobs={"batch_size": None}, objective="throughput")
    notes = run.result.profile.notes if run.result.profile is not None else []
    assert any(note.startswith("batch sizes are tried in processes of their own: ") for note in notes)


def test_memory_that_grows_past_the_limit_is_found_by_running_longer(tmp_path: Path) -> None:
    program = Program([Effect(where(num_workers=2), step=0.6, grows_bytes=2**21)])
    options: dict[str, Any] = {"knobs": {"num_workers": [0, 2]}, "max_memory": 2**30 + 2**28}
    run = replayed(program, tmp_path, **options)
    assert run.result.recommendation.verdict == "keep"
    assert "for longer" in run.result.recommendation.reason
    (confirm,) = [trial for trial in run.result.trials if trial.stage == "confirm"]
    assert (confirm.state, confirm.cause, confirm.confirmed_s) == ("failed", "oom_host", None)
    told = [text.partition(":")[0] for text in run.said if "num_workers=2" in text]
    assert told[-3:] == ["confirmed", "running num_workers=2 for longer", "taken back"]


def test_a_confirmation_is_told_before_the_longer_run_that_completes_it(tmp_path: Path) -> None:
    run = replayed(Program([FASTER]), tmp_path, knobs={"num_workers": [0, 2]})
    confirmed = next(index for index, text in enumerate(run.said) if text.startswith("confirmed: "))
    assert run.said[confirmed + 1].endswith("for longer")
    assert run.verdict() == run.when[confirmed] < run.when[confirmed + 2]
    assert verdict_after(run.result) == f"{run.verdict()[0]:.0f} s and {run.verdict()[1]} processes"


def test_what_fails_only_after_many_steps_is_found_by_running_longer(tmp_path: Path) -> None:
    late = Failure("user_error", "RuntimeError: too many open files")
    program = Program([FASTER, Effect(where(num_workers=2), fails=late, after=90)])
    result = replayed(program, tmp_path, knobs={"num_workers": [0, 2]}).result
    assert result.recommendation.verdict == "keep" and late.message in result.recommendation.reason
