"""What ``advisor check`` takes, prints, writes and refuses before it runs anything."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from check_builder import a_check, a_failed_check
from command_line import HEAVY, assert_told_once, contents, go_to, loaded_by, say
from result_builder import a_profile_result, a_result
from warm import Warm

from advisor.cli.commands.check import show
from advisor.cli.machine_checks import torch_build
from advisor.profiles.facts.machine import read_machine
from advisor.report.files import write_report
from advisor.result.document import Budget
from advisor.result.header import Target

TRAINING = "import torch\nmodel = torch.nn.Linear(1, 1)\nfor _ in range(9):\n    model(1).backward()\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "b.py").write_text(TRAINING)
    machine = replace(read_machine(), torch=torch_build()[0])
    target = Target(path="train.py", kind="script", digest="sha256:9b1c")
    write_report(a_result(machine=machine.as_json(), target=target), tmp_path / "old")
    texts = {
        "elsewhere.json": a_result().to_json(),
        "objects.json": a_result(
            machine=machine.as_json(), target=Target(path="", kind="objects", digest="sha256:1")
        ).to_json(),
        "stepless.json": a_profile_result(
            machine=machine.as_json(), target=target, baseline=None
        ).to_json(),
        "notes.json": "{}",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "keep.txt").write_text("keep")
    return tmp_path


OLD, OTHER = ("--against", "old"), ("--against", "elsewhere.json")
REFUSED: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    "1": (OLD, 2, ("Missing argument 'TARGET'.", "`advisor check train.py`")),
    "2": (("trian.py", *OLD), 2, ("no such file: trian.py", "did you mean train.py?")),
    "19": (("train.py", "b.py", *OLD), 2, ("got an unexpected extra argument (b.py)",)),
    "21": (("train.py", *OLD, "--trials", "3"), 2, ("No such option '--trials'.",)),
    "24": (("train.py", *OLD, "--budget", "10"), 2, ("no unit in '10'",)),
    "29": (("train.py", *OLD, "--budget", "10s", "--budget", "9s"), 2, ("--budget given twice: 10s, 9s",)),
    "35 missing": (("train.py",), 2, ("Missing option '--against'", "--against advisor-report")),
    "35 absent": (("train.py", "--against", "nosuch.json"), 2,
                  ("nosuch.json: no such file", "--> --against")),
    "35 not a result": (("train.py", "--against", "notes.json"), 2,
                        ("notes.json is not a result of advisor (no schema_version)",
                         "`advisor tune TARGET` writes one")),
    "35 empty": (("train.py", "--against", ""), 2, ("the name of a result is empty",)),
    "35 NUL": (("train.py", "--against", "a\0b"), 2, ("no such file",)),
    "36": (("train.py", *OLD, "--min-gain", "2"), 2, ("no unit in '2'",)),
    "37": (("train.py", *OLD, "--confidence", "95"), 2, ("--confidence must lie between 0.5 and 1",)),
    "38": (("train.py", *OLD, "--format", "html"), 2, ("'html' is not one of 'text', 'json', 'md'",)),
    "39": (("train.py", *OLD, "--out", "b.py"), 2, ("b.py is a file; --out is a directory",)),
    "40": (("train.py", *OLD, "--out", "mine"), 2, ("mine exists and was not made by advisor",)),
    "41": (("train.py", *OLD, "--out", "/nonexistent/x"), 5, ("no such directory: /nonexistent",)),
    "41 empty": (("train.py", *OLD, "--out", " "), 2, ("--out is empty",)),
    "51 another machine": (("train.py", *OTHER), 2,
                           ("not comparable: AMD EPYC 9454P 48-Core Processor and", "--> --against")),
    "another kind": (("train.py", "--against", "objects.json"), 2,
                     ("not comparable: target kind objects and target kind script",)),
    "no step": (("train.py", "--against", "stepless.json"), 2, ("the result holds no time of a step",)),
    "72": (("train.py", *OLD, "--fix", "apm=off"), 2, ("unknown knob 'apm'",)),
    "a launcher": (("--exec", *OLD, "--", "nosuch"), 2, ("nosuch",)),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "texts"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_checked_is_refused_and_nothing_is_written(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    texts: tuple[str, ...],
) -> None:
    before = contents(here)
    said = say(capsys, "check", *arguments)
    assert_told_once(said, code, texts)
    assert said.out == ""
    assert contents(here) == before


def test_everything_that_is_wrong_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "check", "trian.py", "--against", "notes.json", "--budget", "0s", "--out", "mine")
    assert said.code == 2
    assert said.err.startswith("error: 4 things have to be corrected\n")


def test_a_dry_run_says_what_would_be_done(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(here)
    said = say(capsys, "check", "train.py", *OLD, "--min-gain", "5%", "--dry-run", "--", "--epochs", "1")
    assert said.code == 0, said.err
    assert "against:     old" in said.out and "min gain:    0.05" in said.out
    assert said.out.endswith("Nothing was started or written.\n")
    facts = json.loads(say(capsys, "check", "train.py", *OLD, "--dry-run", "--format", "json").out)
    assert facts["dry_run"]["budget_s"] == 120
    assert contents(here) == before


def test_the_exit_code_is_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(a_check(), None, "text") == 0
    assert capsys.readouterr().out.startswith("Passed: ")
    assert show(a_failed_check(), None, "md") == 1
    assert capsys.readouterr().out.startswith("<!-- advisor check -->\n**Regression: ")


def test_the_files_hold_what_is_printed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(a_failed_check(), here / "gate", "json") == 1
    written = capsys.readouterr()
    assert (here / "gate" / "check.json").read_text() == written.out
    assert written.err.splitlines() == [f"Wrote {here}/gate/check.json", f"Wrote {here}/gate/check.md"]


def test_an_interrupted_check_is_no_pass(capsys: pytest.CaptureFixture[str]) -> None:
    cut = a_check(budget=Budget(seconds=9.0, trials=0, stopped_by="interrupted"))
    assert show(cut, None, "text") == 128 + signal.SIGINT
    assert "The check was interrupted after 6 processes." in capsys.readouterr().out


def test_help_names_the_exit_code_of_a_failed_gate(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "check", "--help")
    assert "--against RESULT" in said.out
    assert "1  the gate of `advisor check` failed" in said.out


def test_a_usage_error_loads_nothing_heavy(here: Path, light: Warm) -> None:
    code, loaded = loaded_by(light, "check", "train.py", *OTHER, cwd=here)
    assert code == 2 and not loaded & set(HEAVY)
