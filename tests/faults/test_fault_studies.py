"""Trials that fail, targets and spaces that change, limits that are too small: a study tells, and goes on."""

import json
import resource
from pathlib import Path
from typing import Any

import fault_oracle
import pytest
from scripted_trial import CANDIDATES, EVERY, LASTS, ONCE, STUCK
from toy import CHANGE, Toy
from toy_study import STEPPING

from advisor.tuners.trial.messages import MAX_OUTCOME, TrialOutcome

ALLOCATOR = ("--knob", "malloc=libc,libc-tuned")
MANY = (*ALLOCATOR, "--knob", "flush_denormal")  # each setting needs a process of its own


@pytest.fixture
def toy(tmp_path: Path, no_process_remains: str) -> Toy:
    return Toy(tmp_path / "toy", no_process_remains)


def causes(kept: fault_oracle.Kept) -> set[str | None]:
    return {trial.cause for trial in kept.trials.values() if trial.state == "failed"}


def result(toy: Toy) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((toy.folder / "advisor-report" / "result.json").read_text())
    return data


@pytest.mark.faults
def test_where_every_candidate_lacks_memory_nothing_is_recommended(toy: Toy) -> None:
    toy.knobs, toy.environment = ALLOCATOR, {CANDIDATES: "oom_device"}
    code, said = toy.run()
    assert code == 4, said
    assert "oom_device" in said
    kept = fault_oracle.check(toy.folder, mark=toy.mark, code=code)
    assert causes(kept) == {"oom_device"}
    assert all(trial.log for trial in kept.trials.values() if trial.state == "failed")
    assert result(toy)["recommendation"]["verdict"] == "keep"


@pytest.mark.faults
def test_a_program_that_fails_now_and_then_ends_with_what_is_valid(toy: Toy) -> None:
    toy.knobs, toy.environment = MANY, {CANDIDATES: "user_error", EVERY: "3"}
    code, said = toy.run()
    assert code == 0, said
    kept = fault_oracle.check(toy.folder, mark=toy.mark, code=code)
    assert causes(kept) == {"user_error"} and kept.configs
    failed = [json.dumps(trial.config) for trial in kept.trials.values() if trial.state == "failed"]
    assert max(failed.count(config) for config in failed) <= 2


@pytest.mark.faults
@pytest.mark.parametrize(("fate", "state"), [(ONCE, "complete"), ("killed", "failed")])
def test_a_trial_that_is_killed_from_outside_is_measured_once_more(fate: str, state: str, toy: Toy) -> None:
    toy.knobs, toy.environment = ALLOCATOR, {CANDIDATES: fate}
    code, said = toy.run()
    assert code == 0, said
    kept = fault_oracle.check(toy.folder, mark=toy.mark, code=code)
    (trial,) = [trial for trial in kept.trials.values() if trial.config == {"malloc": "libc-tuned"}]
    assert trial.state == state
    assert trial.cause == (None if state == "complete" else "killed")
    assert trial.marks == ["measured once more: killed, as it was written down"]
    assert trial.log


@pytest.mark.faults
def test_a_loss_that_is_no_number_is_a_failure_and_optuna_is_told_no_value(toy: Toy) -> None:
    toy.knobs, toy.environment = (*ALLOCATOR, "--knob", "placebo"), {CANDIDATES: "nan"}
    code, said = toy.run()
    assert code in (0, 4), said
    kept = fault_oracle.check(toy.folder, mark=toy.mark, code=code)
    assert causes(kept) == {"non_finite"}


@pytest.mark.faults
def test_where_a_trial_cannot_be_ended_nothing_more_is_measured_and_the_rest_is_kept(toy: Toy) -> None:
    toy.environment = {CANDIDATES: STUCK}
    code, said = toy.run()
    assert code == 0, said
    assert "1 process of a trial did not end within 30 s of SIGKILL" in said
    kept = fault_oracle.check(toy.folder, mark=toy.mark, code=code)
    assert kept.configs
    failed = [trial for trial in kept.trials.values() if trial.state == "failed"]
    assert [trial.cause for trial in failed] == ["timeout", "killed"]
    assert "nothing more is measured on CPU" in failed[1].message
    told = result(toy)
    assert told["budget"]["stopped_by"] == "failures"
    assert any("nothing more is measured" in text for text in told["warnings"])


@pytest.mark.faults
def test_a_winner_whose_memory_ends_later_is_not_recommended(tmp_path: Path, no_process_remains: str) -> None:
    lasting = Toy(tmp_path / "lasting", no_process_remains, CHANGE)
    code, said = lasting.run()
    assert code == 0, said
    found = result(lasting)["recommendation"]
    assert found["verdict"] == "change"

    ending = Toy(tmp_path / "ending", no_process_remains, CHANGE)
    # What runs longer makes more than half of its steps in one slot; before it none is as long.
    ending.environment = {LASTS: str(found["lasted_steps"] // 2)}
    code, said = ending.run()
    assert code == 0, said
    kept = fault_oracle.check(ending.folder, mark=ending.mark, code=code)
    reason = result(ending)["recommendation"]["reason"]
    assert kept.verdict == "keep", reason
    assert causes(kept) == {"oom_host"}, reason
    assert "run for longer, failed: no memory is left" in reason


@pytest.mark.faults
def test_an_outcome_that_cannot_be_read_is_told_as_our_fault(toy: Toy) -> None:
    toy.knobs, toy.environment = ALLOCATOR, {CANDIDATES: "garbage"}
    code, said = toy.run()
    assert code == 4, said
    kept = fault_oracle.check(toy.folder, mark=toy.mark, code=code)
    assert causes(kept) == {"internal"}
    told = {trial.message for trial in kept.trials.values() if trial.cause == "internal"}
    assert told == {"its outcome.json cannot be read"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"message": "TrialOutcome", "state": "ended"',
        b"\xff\xfe\x00",
        b"[]",
        b'{"x": 1}',
        b'{"message": "TrialOutcome", "state": "lost"}',
    ],
)
def test_an_outcome_that_is_none_is_not_read_as_one(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "outcome.json"
    file.write_bytes(content)
    assert TrialOutcome.read(file) is None


def test_of_an_outcome_of_a_gigabyte_little_is_read(tmp_path: Path) -> None:
    file = tmp_path / "outcome.json"
    file.write_bytes(b'{"message": "TrialOutcome", "state": "ended", "x": "')
    with file.open("r+b") as stream:
        stream.truncate(2**30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert TrialOutcome.read(file) is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * MAX_OUTCOME / 1024


@pytest.mark.faults
def test_a_changed_target_or_space_is_no_continuation(toy: Toy) -> None:
    code, said = toy.run()
    assert code == 0, said
    (toy.folder / "train.py").write_text("import torch  # another one\n")
    code, said = toy.run("--resume")
    assert code == 2 and "train.py" in said and "sha256:" in said, said
    (toy.folder / "train.py").write_text("import torch\n")
    toy.knobs = ALLOCATOR
    code, said = toy.run("--resume")
    assert code == 2 and "placebo" in said and "--study" in said, said
    fault_oracle.check(toy.folder, mark=toy.mark, code=code)


@pytest.mark.faults
def test_a_wall_clock_that_runs_backwards_changes_no_duration(toy: Toy) -> None:
    toy.environment = {STEPPING: "back"}
    code, said = toy.run()
    assert code == 0, said
    kept = fault_oracle.check(toy.folder, mark=toy.mark, code=code)
    assert len(kept.configs) == 4
    assert 0 < result(toy)["budget"]["seconds"] < 600
    assert result(toy)["budget"]["stopped_by"] == "converged"


@pytest.mark.faults
def test_too_few_open_files_are_named_with_the_command_that_allows_more(toy: Toy) -> None:
    code, said = toy.run(wrap=["prlimit", "--nofile=16:16"])
    assert code == 5, said
    assert "open files" in said and "ulimit -n" in said
    fault_oracle.check(toy.folder, mark=toy.mark, code=code, scratch=True)
    assert len(toy.resume().configs) == 4
