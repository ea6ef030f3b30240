"""Where settings may come from, which source wins, and what is read when one cannot be used."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import assert_told_once, go_to, say


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    go_to(tmp_path, monkeypatch)
    (tmp_path / "train.py").write_text("import torch\n")
    return tmp_path


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The settings that a run would have."""
    said = say(capsys, "tune", "train.py", *words, "--dry-run", "--format", "json")
    assert said.code == 0, said.err
    plan: dict[str, Any] = json.loads(said.out)["dry_run"]
    return plan


def test_all_errors_of_files_variables_and_command_line_are_told_at_once(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "pyproject.toml").write_text('[tool.advisor]\ntrails = 3\nseed = "x"\n')
    monkeypatch.setenv("ADVISOR_TRIALS", "abc")
    assert say(capsys, "tune", "train.py", "--budget", "10").err.splitlines() == [
        "error: 4 things have to be corrected",
        "  pyproject.toml: trails: unknown key (did you mean trials?)",
        '  pyproject.toml: seed: expected an integer, got "x"',
        "  --budget: no unit in '10' (`10s`, `10m` or `2h`)",
        "  ADVISOR_TRIALS: 'abc' is not a valid integer.",
    ]


def test_the_command_line_wins_over_a_variable_which_wins_over_a_file(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert planned(capsys)["trials"] is None
    (here / "advisor.toml").write_text("trials = 1\nseed = 1\nmin-gain = '3%'\n")
    assert (planned(capsys)["trials"], planned(capsys)["min_gain"]) == (1, 0.03)
    monkeypatch.setenv("ADVISOR_TRIALS", "2")
    assert planned(capsys)["trials"] == 2
    plan = planned(capsys, "--trials", "3")
    assert (plan["trials"], plan["seed"]) == (3, 1)


def test_knobs_of_a_file_are_lists_ranges_or_all_choices(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "advisor.toml").write_text(
        "[knob]\nnum_workers = [0, 2]\nbatch_size = {low = 8, high = 40, log = true}\namp = true\n"
        "prefetch_factor = {low = 2, high = 6, step = 2}\n[fix]\nchannels_last = true\n"
    )
    plan = planned(capsys)
    assert plan["knobs"] == {
        "num_workers": "0, 2", "batch_size": "8, 16, 32", "amp": "all choices", "prefetch_factor": "2, 4, 6",
    }  # fmt: skip
    assert plan["fixed"] == {"channels_last": "on"}


def test_own_file_and_project_file_together_are_warned_about(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "advisor.toml").write_text("trials = 1\n")
    (here / "pyproject.toml").write_text("[tool.advisor]\ntrials = 2\n")
    said = say(capsys, "tune", "train.py", "--dry-run", "--format", "json")
    assert json.loads(said.out)["dry_run"]["trials"] == 1
    assert said.err.startswith("warning: advisor.toml wins")


def test_a_file_that_others_may_change_is_warned_about(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "advisor.toml").write_text("trials = 1\n")
    (here / "advisor.toml").chmod(0o666)
    said = say(capsys, "tune", "train.py", "--dry-run")
    assert said.err == "warning: others can change advisor.toml\n  hint: `chmod o-w advisor.toml`\n"


def test_other_commands_take_only_the_storage_from_a_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "advisor.toml").write_text("storage = 'foo'\ntrails = 3\n")
    assert_told_once(say(capsys, "studies"), 2, ("'foo' is not a storage URL",))


def test_help_is_given_also_beside_a_broken_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "advisor.toml").write_text("=")
    assert say(capsys, "tune", "--help").code == 0
