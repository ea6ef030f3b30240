"""What may be given as a target, and what is read when it may not."""

import json
import os
import shlex
from pathlib import Path

import pytest
from command_line import assert_told_once, contents, say

from advisor.cli.target import find_target
from advisor.errors import UsageError
from advisor.settings import TargetRequest

TRAINING = "import torch\nmodel = torch.nn.Linear(1, 1)\nfor _ in range(9):\n    model(1).backward()\n"
MODEL = "from torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n"

Case = tuple[tuple[str, ...], int, tuple[str, ...]]

CASES: dict[str, Case] = {
    "1 none": ((), 2, ("Missing argument 'TARGET'.", "hint: `advisor tune train.py`")),
    "1 only arguments": (("--", "x"), 2, ("Missing argument 'TARGET'.",)),
    "2 no such file": (("trian.py",), 2, ("no such file: trian.py", "hint: did you mean train.py?")),
    "2 nothing near": (("zzzzzzz.py",), 2, ("no such file: zzzzzzz.py",)),
    "2 in a folder": (("src/ner.py",), 2, ("no such file: src/ner.py", "did you mean src/net.py?")),
    "2 a file as a folder": (("train.py/x.py",), 2, ("no such file: train.py/x.py",)),
    "2 a name too long": (("x" * 300 + ".py",), 2, ("no such file: xxx", "the name is too long")),
    "3 a directory": (("src/",), 2, ("src/ is a directory", "give the script, or `-m package.module`")),
    "4 a notebook": (("a.ipynb",), 2, ("notebooks are not run from the command line", "`advisor.tune(...)`")),
    "4 not Python": (("run.sh",), 2, ("run.sh is not a Python file",)),
    "5 empty": (("empty.py",), 2, ("empty.py is empty",)),
    "6 a syntax error": (("broken.py",), 3,
                         ("broken.py:2: invalid syntax", "--> broken.py:2:", "cause: x = = 1")),
    "6 nested too deeply": (("deep.py",), 3, ("deep.py",)),
    "7 not UTF-8": (("latin.py",), 2, ("latin.py is not UTF-8 (byte 0xff at 5)", "save it as UTF-8")),
    "7 NUL": (("nul.py",), 2, ("nul.py is not UTF-8 (byte 0x00 at 5)",)),
    "7 unknown coding": (("coding.py",), 2, ("coding.py declares an unknown coding",)),
    "9 a loop of links": (("loop.py",), 2, ("too many symbolic links: loop.py",)),
    "9 no regular file": (("pipe.py",), 2, ("pipe.py is not a regular file",)),
    "11 a name like an option": (("-x.py",), 2, ("No such option '-x'", "write ./-x.py")),
    "18 no such module": (("-m", "pkg.trian"), 3, ("No module named 'pkg.trian'", "did you mean pkg.train?")),
    "18 no such package": (("-m", "pgk.train"), 3, ("No module named 'pgk.train'", "did you mean pkg?")),
    "18 a file as a module": (("-m", "train.py"), 3, ("No module named 'train.py'",)),
    "18 a package": (("-m", "pkg"), 3, ("'pkg' is a package without __main__",)),
    "18 not a name": (("-m", "a b"), 2, ("'a b' is not the name of a module",)),
    "18 a module with a workload": (("-m", "work"), 2, ("work defines a workload",)),
    "19 two targets": (("train.py", "b.py"), 2, ("got an unexpected extra argument (b.py)", "go after `--`")),
    "19 a module and a file": (("-m", "pkg.train", "b.py"), 2, ("got an unexpected extra argument (b.py)",)),
    "20 a URL": (("https://u:s3cret@x.org/a.py",), 2,
                 ("remote scripts are not run", "download and read it first")),
    "model only": (("src/net.py",), 2, ("src/net.py only defines a model, Net", "`advisor init src/net.py`")),
    "option of the script": (("train.py", "--epochs", "3"), 2, ("`advisor tune train.py -- --epochs 3`",)),
    "workload with arguments": (("work.py", "--", "x"), 2,
                                ("work.py is a workload file and takes no arguments",)),
    "a launcher": (("--exec", "--", "nosuch"), 2, ("nosuch",)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    (tmp_path / "src").mkdir()
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "pkg" / "train.py").write_text(TRAINING)
    files = {
        "train.py": TRAINING, "b.py": TRAINING, "src/net.py": MODEL, "empty.py": " \n", "run.sh": "echo",
        "broken.py": "y = 1\nx = = 1\n", "deep.py": "x = " + "(" * 5000 + ")" * 5000, "a.ipynb": "{}",
        "coding.py": "# coding: klingon\n", "work.py": "import advisor\nworkload = advisor.Workload()\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin.py").write_bytes(b"x = '\xff'\n")
    (tmp_path / "nul.py").write_bytes(b"x = 1\0\n")
    (tmp_path / "loop.py").symlink_to("loop.py")
    os.mkfifo(tmp_path / "pipe.py")
    return tmp_path


@pytest.mark.parametrize(("arguments", "code", "texts"), CASES.values(), ids=CASES)
def test_a_target_that_cannot_be_run_is_refused(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    texts: tuple[str, ...],
) -> None:
    before = contents(here)
    said = say(capsys, "tune", *arguments)
    assert_told_once(said, code, texts)
    assert "s3cret" not in said.err + said.out
    assert said.out == ""
    assert contents(here) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").chmod(0)
    assert_told_once(say(capsys, "tune", "train.py"), 5, ("cannot read train.py: permission denied",))


def test_under_a_launcher_nothing_is_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = say(capsys, "tune", "train.py")
    assert_told_once(
        said, 2, ("WORLD_SIZE is set: advisor starts the ranks itself", "`advisor tune train.py`")
    )


@pytest.mark.parametrize(
    "name",
    [
        "mod\udcff.py",
        "<script>.py",
        "a'b\".py",
        "a\nb.py",
        "[red].py",
        "\x1b[2J.py",
        "\u202egpj.py",
        "'; rm -rf x.py",
    ],
)
def test_any_name_of_a_file_is_taken_and_shown_without_control_characters(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (here / name).write_text(TRAINING)
    said = say(capsys, "tune", name, "--dry-run")
    assert said.code == 0
    assert not [c for c in said.out if c != "\n" and (ord(c) < 32 or ord(c) in (0x202E, 0x9B))]
    if "\udcff" in name:
        assert "mod\\xff.py" in said.out


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.py", TRAINING, "script"),
        ("a.py", "from elsewhere import workload\n", "workload"),
        ("a.py", "if True:\n    workload = 1\n", "workload"),
        ("a.py", "def f():\n    workload = 1\nf()\n", "script"),
        ("a.py", MODEL + "from engine import train\ntrain(Net())\n", "script"),
        ("a.py", MODEL + "def run(m):\n    m.backward()\nresult = run(Net())\n", "script"),
        ("a.py", "# -*- coding: latin-1 -*-\nx = 'é'\nprint(x)\n".encode("latin-1"), "script"),
        ("no_ending", "print(1)\n", "script"),
    ],
)  # fmt: skip
def test_the_kind_of_a_target_is_told_by_reading_it(
    here: Path, name: str, text: str | bytes, kind: str
) -> None:
    (here / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert find_target(name, None, ()).kind == kind


def test_a_module_is_found_without_running_its_package(here: Path) -> None:
    found = find_target(None, "pkg.train", ("--lr", "1"))
    assert found == TargetRequest(kind="module", name="pkg.train", args=("--lr", "1"))


def test_every_command_in_a_hint_can_be_parsed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, _, _ in CASES.values():
        hint = say(capsys, "tune", *arguments, "--format", "json") if "--" not in arguments else None
        parts = (
            [] if hint is None or hint.out == "" else (json.loads(hint.out)["error"]["hint"] or "").split("`")
        )
        for command in (shlex.split(part)[1:] for part in parts if part.startswith("advisor ")):
            said = say(capsys, *command, "--help") if "--" not in command else None
            assert said is None or said.code == 0, command


def test_two_targets_are_an_error_of_their_own_kind() -> None:
    with pytest.raises(UsageError, match="unexpected extra argument"):
        find_target("a.py", "pkg.train", ())
