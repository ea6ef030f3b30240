"""Trials that fail, targets and spaces that change, limits that are too small: a study tells, and goes on."""

import json
import resource
from pathlib import Path
from typing import Any

import fault_oracle
import pytest
from scripted_trial import CANDIDATES, EVERY
from toy import Toy
from toy_study import STEPPING

from advisor.tuners.spec import MAX_OUTCOME, read_outcome

WORKERS = ("--knob", "num_workers=0,2")
MANY = ("--knob", "num_workers=0,1,2,4", "--knob", "placebo")


@pytest.fixture
def toy(tmp_path: Path, no_process_remains: str) -> Toy:
    return Toy(tmp_path / "toy", no_process_remains)


def causes(kept: fault_oracle.Kept) -> set[str | None]:
    return {trial.cause for trial in kept.trials.values() if trial.state == "failed"}


def result(toy: Toy) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((toy.folder / "advisor-report" / "result.json").read_text())
    return data


def test_where_every_candidate_lacks_memory_nothing_is_recommended(toy: Toy) -> None:
    toy.knobs, toy.environment = WORKERS, {CANDIDATES: "oom_device"}
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
def test_a_loss_that_is_no_number_is_a_failure_and_optuna_is_told_no_value(toy: Toy) -> None:
    toy.knobs, toy.environment = (*WORKERS, "--knob", "placebo"), {CANDIDATES: "nan"}
    code, said = toy.run()
    assert code in (0, 4), said
    kept = fault_oracle.check(toy.folder, mark=toy.mark, code=code)
    assert causes(kept) == {"non_finite"}


@pytest.mark.faults
def test_an_outcome_that_cannot_be_read_is_told_as_our_fault(toy: Toy) -> None:
    toy.knobs, toy.environment = WORKERS, {CANDIDATES: "garbage"}
    code, said = toy.run()
    assert code == 4, said
    kept = fault_oracle.check(toy.folder, mark=toy.mark, code=code)
    assert causes(kept) == {"internal"}
    told = {trial.message for trial in kept.trials.values() if trial.cause == "internal"}
    assert told == {"its outcome.json cannot be read"}


@pytest.mark.parametrize("content", [b"", b"{", b'{"state": "ended"', b"\xff\xfe\x00", b"[]", b'{"x": 1}'])
def test_an_outcome_that_is_none_is_not_read_as_one(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "outcome.json"
    file.write_bytes(content)
    assert read_outcome(file) is None


def test_of_an_outcome_of_a_gigabyte_little_is_read(tmp_path: Path) -> None:
    file = tmp_path / "outcome.json"
    file.write_bytes(b'{"state": "ended", "x": "')
    with file.open("r+b") as stream:
        stream.truncate(2**30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert read_outcome(file) is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * MAX_OUTCOME / 1024


@pytest.mark.faults
def test_a_changed_target_or_space_is_no_continuation(toy: Toy) -> None:
    code, said = toy.run()
    assert code == 0, said
    (toy.folder / "train.py").write_text("import torch  # another one\n")
    code, said = toy.run("--resume")
    assert code == 2 and "train.py" in said and "sha256:" in said, said
    (toy.folder / "train.py").write_text("import torch\n")
    toy.knobs = WORKERS
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
