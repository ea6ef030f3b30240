"""What ``advisor apply`` takes, prints, writes, takes back and refuses."""

import json
import subprocess
from pathlib import Path

import pytest
from applied_builder import PROGRAM, a_change, a_result_for
from command_line import HEAVY, assert_told_once, contents, go_to, loaded_by, say
from result_builder import a_keep, a_profile_result, a_ratio, an_adopted
from warm import Warm

from advisor.base.settings import Settings
from advisor.cli.commands import apply
from advisor.report.files import write_report
from advisor.result.apply import Verification

WORKERS = a_change("num_workers", 0, 2)
FREEZE = a_change("gc_freeze", "off", "freeze")
AFTER = PROGRAM.replace("shuffle=True", "shuffle=True, num_workers=2")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    write_report(a_result_for(file, WORKERS, FREEZE), tmp_path / "report")
    (tmp_path / "later.py").write_text(PROGRAM)
    results = {
        "keep.json": a_keep(),
        "profile.json": a_profile_result(),
        "objects.json": a_result_for(file, WORKERS, target={"kind": "objects"}),
        "outside.json": a_result_for(file, WORKERS, target={"path": "../x.py"}),
        "absolute.json": a_result_for(file, WORKERS, target={"path": "/etc/hostname"}),
        "gone.json": a_result_for(file, WORKERS, target={"path": "gone.py"}),
        "changed.json": a_result_for(tmp_path / "later.py", WORKERS),
        "hand.json": a_result_for(file, FREEZE),
        "evil.json": a_result_for(file, an_adopted(
            knob="num_workers", before=0, to="2 or print(1)", semantics="exact", snippet="x")),
    }  # fmt: skip
    for name, result in results.items():
        (tmp_path / name).write_text(result.to_json())
    (tmp_path / "later.py").write_text(PROGRAM + "\n")
    (tmp_path / "notes.json").write_text("{}")
    return tmp_path


def verified(monkeypatch: pytest.MonkeyPatch, verdict: str) -> None:
    """Let the measurement come out so."""
    found = Verification.model_validate(
        {"verdict": verdict, "measured": a_ratio(1.4, 1.3, 1.5), "promised": a_ratio(1.42, 1.38, 1.46)}
    )
    monkeypatch.setattr(apply, "_verified", lambda *arguments, **options: found)


def test_the_patch_is_shown_and_nothing_is_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(here)
    said = say(capsys, "apply", "report")
    assert said.code == 0, said.err
    assert said.out.startswith("# 2 changes for train.py: 1 edited below, 1 to be made by hand.\n")
    assert "# edited: num_workers 0 -> 2\n" in said.out
    assert "# why not edited: advisor has no safe edit for it\n" in said.out
    assert said.out.endswith(" for x, y in loader:\n")
    assert said.err == "Nothing was written; to edit train.py: advisor apply report --write\n"
    assert contents(here) == before


def test_what_is_shown_is_what_git_applies(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=here, check=True)
    (here / "x.patch").write_text(say(capsys, "apply", "report").out)
    subprocess.run(["git", "apply", "x.patch"], cwd=here, check=True)
    assert (here / "train.py").read_text() == AFTER


def test_the_patch_in_the_report_is_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (here / "report" / "changes.patch").read_text() == say(capsys, "apply", "report").out


def test_a_patch_is_written_and_taken_back(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(here)
    said = say(capsys, "apply", "report", "--write")
    assert said.code == 0, said.err
    assert (here / "train.py").read_text() == AFTER
    assert (here / "train.py.orig").read_text() == PROGRAM
    assert "Wrote train.py; as it was: train.py.orig." in said.err
    said = say(capsys, "apply", "report", "--revert")
    assert (said.code, said.out) == (0, "train.py is as it was before it was patched.\n")
    assert contents(here) == before


def test_a_patch_is_not_written_twice(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say(capsys, "apply", "report", "--write")
    before = contents(here)
    for arguments in ((), ("--write",), ("--verify",)):
        said = say(capsys, "apply", "report", *arguments)
        assert_told_once(said, 2, ("the patch was written to train.py before", "--revert"))
    assert contents(here) == before


def test_a_file_that_was_changed_after_the_patch_is_kept(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    say(capsys, "apply", "report", "--write")
    (here / "train.py").write_text(AFTER + "# mine\n")
    before = contents(here)
    assert_told_once(say(capsys, "apply", "report", "--revert"), 2, ("changed after it was patched",))
    assert contents(here) == before


def test_uncommitted_changes_are_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (here / "train.py").write_text("x = 1\n")
    for words in (["init", "-q", "."], ["add", "train.py"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], cwd=here, check=True, capture_output=True)
    (here / "train.py").write_text(PROGRAM)
    said = say(capsys, "apply", "report", "--write", "--format", "json")
    assert said.code == 0
    told = "train.py has uncommitted changes; backup at train.py.orig"
    assert f"warning: {told}" in said.err
    assert json.loads(said.out)["warnings"] == [told]


def test_the_document_tells_everything(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "apply", "report", "--write", "--format", "json")
    document = json.loads(said.out)
    assert said.code == 0
    assert (document["schema_version"], document["status"], document["file"]) == (1, "written", "train.py")
    assert document["edited"] == [{"knob": "num_workers", "from": 0, "to": 2}]
    assert document["instructions"][0]["knob"] == "gc_freeze"
    assert document["backup"] == "train.py.orig"
    assert document["verification"] is None
    assert document["diff"].startswith("--- a/train.py\n")
    reverted = json.loads(say(capsys, "apply", "report", "--revert", "--format", "json").out)
    assert reverted["status"] == "reverted"


def test_a_kept_promise_is_told_and_written(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    verified(monkeypatch, "met")
    said = say(capsys, "apply", "report", "--verify")
    assert said.code == 0
    assert said.out.startswith("# The patched program gives 1.40x throughput")
    assert (here / "train.py").read_text() == PROGRAM
    assert say(capsys, "apply", "report", "--verify", "--write").code == 0
    assert (here / "train.py").read_text() == AFTER


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (("tune", "train.py", "--allow-writes"), True),
        (("tune", "train.py"), False),
        (("tune", "train.py", "--", "--allow-writes"), False),
    ],
    ids=["allowed", "not allowed", "an argument of the program"],
)
def test_a_verification_may_change_files_if_the_run_that_made_the_result_might(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...], allowed: bool,
) -> None:  # fmt: skip
    file = here / "report" / "result.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "command": words}))
    asked: list[bool] = []

    def verify(settings: Settings, *arguments: object) -> Verification:
        asked.append(settings.allow_writes)
        ratio = a_ratio(1.4, 1.3, 1.5)
        return Verification.model_validate({"verdict": "met", "measured": ratio, "promised": ratio})

    monkeypatch.setattr("advisor.runs.verify.verify", verify)
    monkeypatch.setattr("advisor.runs.verify.refuse_promise", lambda *arguments: None)
    assert say(capsys, "apply", "report", "--verify").code == 0
    assert asked == [allowed]


@pytest.mark.parametrize("verdict", ["missed", "not_shown", "drifts", "failed"])
def test_a_promise_that_is_not_kept_fails_and_writes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verdict: str
) -> None:
    verified(monkeypatch, verdict)
    before = contents(here)
    said = say(capsys, "apply", "report", "--verify", "--write", "--format", "json")
    document = json.loads(said.out)
    assert said.code == 1
    assert (document["status"], document["verification"]["verdict"]) == ("not_written", verdict)
    assert said.err == "Nothing was written.\n"
    assert contents(here) == before
    shown = say(capsys, "apply", "report", "--verify")
    assert (shown.code, shown.err) == (1, "")  # and no advice to write it


def test_keep_says_in_one_line_that_there_is_nothing_to_change(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ((), ("--write",), ("--verify",)):
        said = say(capsys, "apply", "keep.json", *arguments)
        assert (said.code, said.out, said.err) == (0, "# Nothing to change: keep what you have.\n", "")


@pytest.mark.parametrize("name", ["objects.json", "hand.json", "evil.json"])
def test_what_cannot_be_edited_is_told_and_changes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    before = contents(here)
    said = say(capsys, "apply", name, "--write")
    assert said.code == 0, said.err
    assert said.out.startswith("# 1 change for train.py, to be made by hand.\n")
    assert "# why not edited: " in said.out
    assert said.err == "Nothing was written.\n"
    assert contents(here) == before


REFUSED: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    "nothing": ((), 2, ("Missing argument 'RESULT'.", "`advisor apply advisor-report`")),
    "two": (("report", "keep.json"), 2, ("got an unexpected extra argument (keep.json)",)),
    "no such file": (("nosuch.json",), 2, ("nosuch.json: no such file",)),
    "not a result": (("notes.json",), 2, ("notes.json is not a result of advisor (no schema_version)",)),
    "a profile": (("profile.json",), 2, ("profile.json is a profile, without a recommendation",)),
    "44": (("changed.json",), 2, ("later.py changed since the study (sha256:", "git apply --3way")),
    "44 write": (("changed.json", "--write"), 2, ("later.py changed since the study",)),
    "45": (("outside.json",), 2, ("../x.py lies outside the project: nothing written",)),
    "45 absolute": (("absolute.json", "--write"), 2, ("/etc/hostname lies outside the project",)),
    "45 revert": (("outside.json", "--revert"), 2, ("../x.py lies outside the project",)),
    "gone": (("gone.json",), 2, ("no such file: gone.py",)),
    "38": (("report", "--format", "md"), 2, ("'md' is not one of 'text', 'json'",)),
    "revert and write": (("report", "--revert", "--write"), 2, ("--revert and --write exclude each other",)),
    "nothing to revert": (("report", "--revert"), 2, ("train.py was not patched",)),
    "revert of objects": (("objects.json", "--revert"), 2, ("nothing was patched",)),
    "a budget for nothing": (("report", "--budget", "1m"), 2, ("--budget is the time for --verify",)),
    "24": (("report", "--verify", "--budget", "10"), 2, ("no unit in '10'",)),
    "another machine": (("report", "--verify"), 2, ("not comparable",)),
    "nothing to verify": (("hand.json", "--verify"), 2, ("nothing to verify",)),
    "an empty name": (("",), 2, ("study",)),
    "NUL": (("a\0b",), 2, ("no such file",)),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "texts"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_applied_is_refused_and_nothing_is_written(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    texts: tuple[str, ...],
) -> None:
    before = contents(here)
    said = say(capsys, "apply", *arguments)
    assert_told_once(said, code, texts)
    assert said.out == ""
    assert contents(here) == before


def test_a_refusal_is_json_when_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "apply", "changed.json", "--format", "json")
    error = json.loads(said.out)["error"]
    assert (said.code, error["code"], error["exit_code"]) == (2, "target_changed", 2)


def test_a_terminal_is_not_obeyed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(
        "name = '\x1b[2J'  # \u202e\n\n" + PROGRAM.replace("import torch\nfrom", "import torch\nfrom", 1)
    )
    lines = PROGRAM.splitlines()
    lines[5] += "  # \x1b]0;t\x07"
    (here / "train.py").write_text("\n".join(lines) + "\n")
    (here / "odd.json").write_text(a_result_for(here / "train.py", WORKERS).to_json())
    said = say(capsys, "apply", "odd.json")
    assert said.code == 0
    assert "\x1b" not in said.out and "\\x1b]0;t" in said.out


def test_help_names_the_exit_code_of_a_promise_that_is_not_kept(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "apply", "--help")
    assert "--revert" in said.out
    assert "advisor apply --verify" in said.out


@pytest.mark.parametrize("arguments", [("report",), ("report", "--write"), ("changed.json",)])
def test_nothing_heavy_is_loaded(here: Path, light: Warm, arguments: tuple[str, ...]) -> None:
    code, loaded = loaded_by(light, "apply", *arguments, cwd=here)
    assert code in (0, 2) and not loaded & set(HEAVY)
