"""How a whole run ends early: trials that fail, a target that fails by itself, interrupts, and going on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import a_machine, a_rich_profile
from replayed_program import Effect, Program, above, where
from replaying import replayed

from advisor.base.errors import NoValidTrial, TargetError
from advisor.tuners.knob import Value
from advisor.tuners.supervision.failures import Cause, Failure

pytestmark = pytest.mark.usefixtures("own_folder", "quick_proposals")

FASTER = Effect(where(num_workers=2), step=0.6)
CRASH = Failure("crash_signal", "SIGSEGV")
FULL = Failure("oom_host", "MemoryError")


def workers(*values: Value) -> dict[str, list[Value] | None]:
    return {"num_workers": list(values)}


def test_a_run_of_which_every_trial_fails_has_no_valid_one(tmp_path: Path) -> None:
    program = Program([Effect(above(num_workers=0), fails=CRASH)])
    with pytest.raises(NoValidTrial, match="crash_signal") as ended:
        replayed(program, tmp_path, knobs=workers(0, 1, 2), out=tmp_path / "out")
    assert ended.value.exit_code == 4
    assert (tmp_path / "out" / "result.json").exists()


def test_five_failures_in_a_row_end_the_search(tmp_path: Path) -> None:
    large = a_rich_profile(a_machine(cpus_allowed=64, physical_cores=64))
    effects = [Effect(where(num_workers=1), step=0.6), Effect(above(num_workers=1), fails=CRASH)]
    program = Program(effects, profile=large)
    run = replayed(program, tmp_path, knobs=workers(*range(10)), budget_s=600.0)
    failed = [trial for trial in run.result.trials if trial.state == "failed"]
    assert len(failed) == 5 and {trial.cause for trial in failed} == {"crash_signal"}
    assert run.result.budget.stopped_by == "failures"
    assert run.result.recommendation.config == {"num_workers": 1}


def test_what_needs_more_than_what_ran_out_of_memory_is_not_tried(tmp_path: Path) -> None:
    program = Program([FASTER, Effect(above(num_workers=2), fails=FULL)])
    run = replayed(program, tmp_path, knobs=workers(0, 1, 2, 4, 8), budget_s=300.0)
    failed = [trial for trial in run.result.trials if trial.state == "failed"]
    assert [(trial.config["num_workers"], trial.cause) for trial in failed] == [(4, "oom_host")]
    assert not any(config.get("num_workers") == 8 for config in run.launcher.configs)
    assert run.result.recommendation.config == {"num_workers": 2}


@pytest.mark.parametrize("cause", ["killed", "interference"])
def test_what_was_cut_off_from_outside_is_measured_again(cause: Cause, tmp_path: Path) -> None:
    cut_off = Effect(where(num_workers=2), fails=Failure(cause, "from outside"), after=3, times=1)
    run = replayed(Program([FASTER, cut_off]), tmp_path, knobs=workers(0, 2))
    assert [trial.state for trial in run.result.trials] == ["complete"] * 3
    assert run.result.recommendation.config == {"num_workers": 2}


def test_other_load_alone_leaves_the_program_as_it_is(tmp_path: Path) -> None:
    loaded = Effect(above(num_workers=0), fails=Failure("interference", "other load"))
    run = replayed(Program([loaded]), tmp_path, knobs=workers(0, 1, 2))
    assert {trial.cause for trial in run.result.trials} == {None, "interference"}
    recommended = run.result.recommendation
    assert recommended.verdict == "keep" and recommended.speedup.estimate > 0
    assert recommended.reason.startswith("other processes disturbed every trial")


def test_a_trial_that_hangs_costs_its_deadline_and_no_more(tmp_path: Path) -> None:
    hangs = Effect(where(num_workers=2), fails=Failure("timeout", "no answer for 60 s"), takes_s=60.0)
    faster = Effect(where(num_workers=1), step=0.6)
    program = Program([faster, hangs])
    run = replayed(program, tmp_path, knobs=workers(0, 1, 2), budget_s=300.0)
    assert [trial.cause for trial in run.result.trials] == [None, None, "timeout", None]
    assert run.result.recommendation.config == {"num_workers": 1}
    assert program.failed == {hangs: 1}


@pytest.mark.parametrize(
    ("program", "told", "code"),
    [
        (Program(steps=0), "no training step found", "no_training_step"),
        (Program(steps=7), "only 7 steps ran; 30 are needed", "too_few_steps"),
        (Program([Effect(where(), fails=Failure("user_error", "ValueError: my own mistake"))]),
         "my own mistake", "user_error"),
        (Program([Effect(where(), fails=Failure("user_error", "EOFError: EOF when reading a line"))]),
         "stdin is closed", "user_error"),
        (Program([Effect(where(), fails=Failure("timeout", "no answer for 60 s in phase start"))]),
         "its start takes longer", "slow_start"),
        (Program([Effect(where(), fails=CRASH, after=20)]), "SIGSEGV", "crash_signal"),
    ],
    ids=["no step", "too short", "raises", "reads stdin", "never steps", "crashes while measured"],
)  # fmt: skip
def test_a_target_that_fails_by_itself_is_told_in_its_own_words(
    program: Program, told: str, code: str, tmp_path: Path
) -> None:
    with pytest.raises(TargetError, match=told) as failed:
        replayed(program, tmp_path, knobs=workers(0, 2))
    assert (failed.value.exit_code, failed.value.code) == (3, code)


def test_an_interrupt_before_the_baseline_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="interrupted before the baseline") as ended:
        replayed(Program(), tmp_path, interrupt_at="running it unchanged", out=tmp_path / "out")
    assert ended.value.code == "interrupted" and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("stage", "stages"),
    [
        ("watching it run", ["baseline"]),
        ("trial 2", ["baseline", "screen"]),
        ("process 2", ["baseline", "screen", "screen"]),
    ],
)
def test_an_interrupt_keeps_what_was_measured_in_every_stage(
    stage: str, stages: list[str], tmp_path: Path
) -> None:
    options: dict[str, Any] = {"knobs": workers(0, 1, 2), "out": tmp_path / "out"}
    run = replayed(Program([FASTER]), tmp_path, interrupt_at=stage, **options)
    assert run.result.budget.stopped_by == "interrupted"
    assert run.result.recommendation.verdict == "keep" and "interrupted" in run.result.recommendation.reason
    assert [trial.stage for trial in run.result.trials if trial.state == "complete"] == stages
    assert (tmp_path / "out" / "result.json").exists()
    whole = replayed(Program([FASTER]), tmp_path, **options)
    assert run.launcher.now < whole.launcher.now


@pytest.mark.parametrize("stage", ["comparing the numbers", "for longer"])
def test_an_interrupt_after_the_pairs_keeps_what_was_confirmed_and_told(stage: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"knobs": workers(0, 1, 2), "out": tmp_path / "out"}
    run = replayed(Program([FASTER]), tmp_path, interrupt_at=stage, **options)
    found = run.result.recommendation
    assert run.result.budget.stopped_by == "interrupted" and found.verdict == "change"
    assert found.config == {"num_workers": 2} and found.speedup.low > 1.3
    assert found.lasted_steps is None and found.reason.startswith("interrupted before it was run for longer")
    assert any(line.startswith("confirmed: ") for line in run.said)
    assert found.reason in run.said and not any(line.startswith("taken back") for line in run.said)
    confirmed = [trial for trial in run.result.trials if trial.stage == "confirm"]
    assert [trial.state for trial in confirmed] == ["complete"] and confirmed[0].confirmed_s is not None


@pytest.fixture
def resumable(tmp_path: Path) -> Callable[..., Any]:
    """Runs a study that is kept; from the second call on it is resumed."""
    begun: list[bool] = []

    def run(program: Program, **options: Any) -> Any:
        begun.append(True)
        stored = {"storage": f"sqlite:///{tmp_path}/studies.db", "study": "s", "resume": len(begun) > 1}
        folder = tmp_path / str(len(begun))
        return replayed(program, folder, knobs=workers(0, 1, 2), **{**stored, **options})

    return run


def test_a_resumed_study_does_not_measure_again_what_it_has_measured(resumable: Callable[..., Any]) -> None:
    first = resumable(Program([FASTER]), interrupt_at="trial 2")
    again = resumable(Program([FASTER]))
    measured = {"num_workers": 1}
    assert measured in [trial.config for trial in first.result.trials]
    assert measured not in again.launcher.configs
    assert again.result.recommendation.config == {"num_workers": 2}


def test_what_was_confirmed_stands_also_where_its_longer_run_was_interrupted(
    resumable: Callable[..., Any],
) -> None:
    first, again = resumable(Program([FASTER]), interrupt_at="for longer"), resumable(Program([FASTER]))
    assert first.result.recommendation.verdict == again.result.recommendation.verdict == "change"
    assert first.result.recommendation.config == again.result.recommendation.config == {"num_workers": 2}


def test_what_a_study_has_confirmed_stands_when_it_is_resumed(resumable: Callable[..., Any]) -> None:
    first, again = (resumable(Program([FASTER])) for _ in range(2))
    assert first.result.recommendation.verdict == again.result.recommendation.verdict == "change"
    assert first.result.recommendation.config == again.result.recommendation.config
    assert first.launcher.launches > again.launcher.launches
