"""What options take, and what is read when they do not."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import assert_told_once, go_to, say
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.cli import main
from advisor.stages.first_line import visible_gpus


def lay_out(folder: Path) -> None:
    """A script, and a folder that is not ours."""
    (folder / "train.py").write_text("import torch\nfor _ in range(3):\n    torch.ones(1).backward()\n")
    (folder / "notes").mkdir()
    (folder / "notes" / "mine.txt").write_text("keep")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))
    lay_out(tmp_path)
    return tmp_path


def test_everything_that_is_wrong_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "tune", "trian.py", "--trials", "0", "--out", "notes", "--storage", "foo")
    assert said.code == 2
    assert said.err.splitlines() == [
        "error: 4 things have to be corrected",
        "  --trials: 0 is not in the range x>=1.",
        "  no such file: trian.py (did you mean train.py?)",
        "  --storage: 'foo' is not a storage URL (`sqlite:///path.db` or `postgresql://USER@HOST/DB`)",
        "  --out: notes exists and was not made by advisor (choose another --out)",
    ]


@pytest.mark.parametrize("where", ["first", "last"])
def test_under_json_an_error_is_the_only_document_on_stdout(
    capsys: pytest.CaptureFixture[str], where: str
) -> None:
    words = ["--format", "json", "--zzzz"] if where == "first" else ["--zzzz", "--format=json"]
    said = say(capsys, "tune", *words)
    assert json.loads(said.out) == {
        "error": {
            "code": "usage", "message": "No such option '--zzzz'.", "where": None, "cause": None,
            "hint": None, "exit_code": 2,
        }
    }  # fmt: skip


def test_knobs_may_be_repeated_and_their_values_are_merged(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--knob",
        "num_workers=1,2",
        "--knob",
        "num_workers=2,4",
        "--knob",
        "amp",
        "--fix",
        "num_threads=1",
    ]
    said = say(capsys, "tune", "train.py", *words, "--dry-run", "--format", "json")
    plan = json.loads(said.out)["dry_run"]
    assert plan["knobs"] == {"num_workers": "1, 2, 4", "amp": "all choices"}
    assert plan["fixed"] == {"num_threads": 1}


def test_the_same_value_given_twice_is_no_contradiction(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(
        capsys, "tune", "train.py", "--budget", "2m", "--budget", "120s", "--dry-run", "--format", "json"
    )
    assert json.loads(said.out)["dry_run"]["budget_s"] == 120.0


def test_debug_adds_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "tune", "trian.py", "--debug")
    assert "Traceback (most recent call last)" in said.err
    assert said.blocks == 1


def test_colour_is_used_only_where_it_is_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1;31merror:" in say(capsys, "tune").err
    assert "\x1b" not in say(capsys, "tune", "--no-color").err
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in say(capsys, "tune").err


@pytest.mark.parametrize(
    ("variable", "count"),
    [
        (None, 2),
        ("", 0),
        ("0", 1),
        ("1,0", 2),
        ("-1", 0),
        ("0,-1,1", 1),
        ("0,7", 1),
        ("GPU-1a", 1),
        ("MIG-1,MIG-2", 2),
    ],
)
def test_devices_are_hidden_as_cuda_hides_them(variable: str | None, count: int) -> None:
    assert visible_gpus(2, variable) == count


@pytest.mark.parametrize("command", ["trace"])
def test_a_command_that_comes_later_says_so(capsys: pytest.CaptureFixture[str], command: str) -> None:
    said = say(capsys, command, "x", "--whatever")
    assert_told_once(said, 2, (f"`advisor {command}` is not available yet",))


def test_a_misspelt_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert_told_once(say(capsys, "tuen"), 2, ("No such command 'tuen'.", "did you mean 'tune'?"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash for pipefail")
def test_a_closed_pipe_ends_quietly(here: Path) -> None:
    command = f"{sys.executable} -m advisor knobs --format json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=here, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    option=st.sampled_from(
        ["--budget", "--trials", "--objective", "--device", "--seed", "--min-gain", "--confidence", "--study",
         "--knob", "--fix", "--ranks", "--max-memory", "--storage", "--format", "--out", "-m"]
    ),
    value=st.text(max_size=30),
)  # fmt: skip
def test_any_text_after_any_option_is_answered(option: str, value: str) -> None:
    assert main(["tune", "train.py", "--dry-run", option, value]) in (0, 2, 3, 5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60))
def test_any_bytes_in_a_script_are_answered(content: bytes) -> None:
    Path("any.py").write_bytes(content)
    assert main(["tune", "any.py", "--dry-run"]) in (0, 2, 3)


def test_benches_on_an_allocation_are_refused_where_there_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    said = say(capsys, "tune", "train.py", "--on", "slurm")
    assert said.code == 5 and "SLURM_JOB_ID is not set" in said.err
    assert "'moon' is not one of" in say(capsys, "tune", "train.py", "--on", "moon").err
