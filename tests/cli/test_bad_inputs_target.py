"""Wrong targets: rows 1 to 20 of the table of bad inputs."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bad_inputs import SECRET, TRAINING, Row, assert_quick, assert_refused
from command_line import contents, go_to, say
from warm import Warm

MODEL = "from torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n"
FILES: dict[str, str | bytes] = {
    "b.py": TRAINING, "src/net.py": MODEL, "empty.py": " \n", "run.sh": "echo", "model.pt": b"PK\x03\x04",
    "broken.py": "y = 1\nx = = 1\n", "deep.py": "x = " + "(" * 5000 + ")" * 5000, "a.ipynb": "{}",
    "coding.py": "# coding: klingon\n", "work.py": "import advisor\nworkload = advisor.Workload()\n",
    "latin.py": b"x = '\xff'\n", "nul.py": b"x = 1\0\n", "pkg/__init__.py": "raise SystemExit('imported')",
    "pkg/train.py": TRAINING,
}  # fmt: skip
ANSWERS: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    "1 none": ((), 2, ("Missing argument 'TARGET'.", "hint: `advisor tune train.py`")),
    "1 only arguments": (("--", "x"), 2, ("Missing argument 'TARGET'.",)),
    "2 no such file": (("trian.py",), 2, ("no such file: trian.py", "hint: did you mean train.py?")),
    "2 nothing near": (("zzzzzzz.py",), 2, ("no such file: zzzzzzz.py",)),
    "2 in a folder": (("src/ner.py",), 2, ("no such file: src/ner.py", "did you mean src/net.py?")),
    "2 a file as a folder": (("train.py/x.py",), 2, ("no such file: train.py/x.py",)),
    "2 a name too long": (("x" * 300 + ".py",), 2, ("no such file: xxx", "the name is too long")),
    "3 a directory": (("src/",), 2, ("src/ is a directory", "give the script, or `-m package.module`")),
    "4 a notebook": (("a.ipynb",), 2,
                     ("notebooks are not run from the command line",
                      "`%load_ext advisor` in the notebook, or `jupyter nbconvert --to script a.ipynb`")),
    "4 not Python": (("run.sh",), 2, ("run.sh is not a Python file",)),
    "87 a checkpoint": (("model.pt",), 2,
                        ("model.pt is a checkpoint, not a program; advisor never unpickles one",
                         "safetensors")),
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


def no_plain_files(folder: Path) -> None:
    """A link to itself, and a pipe."""
    (folder / "loop.py").symlink_to("loop.py")
    os.mkfifo(folder / "pipe.py")


ROWS = {
    name: Row(("tune", *words), code, told, files=FILES, lay=no_plain_files)
    for name, (words, code, told) in ANSWERS.items()
}
LAUNCHED = {"WORLD_SIZE": "2"}
ROWS |= {
    "17": Row(
        ("tune", "train.py"), 2,
        ("WORLD_SIZE is set: advisor starts the ranks itself", "hint: `advisor tune train.py --ranks 2`"),
        environment=LAUNCHED,
    ),
    "17 one": Row(
        ("tune", "train.py"), 2, ("hint: `advisor tune train.py`\n",), environment={"WORLD_SIZE": "1"}
    ),
    "17 no number": Row(
        ("tune", "train.py"), 2, ("hint: `advisor tune train.py`\n",), environment={"WORLD_SIZE": "\x1b[2J"}
    ),
    "17 profile": Row(
        ("profile", "train.py"), 2, ("hint: `advisor profile train.py --ranks 2`",), environment=LAUNCHED
    ),
    "17 check": Row(
        ("check", "train.py", "--against", "x"), 2, ("`advisor check train.py`",), environment=LAUNCHED
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    return go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_target_that_cannot_be_run_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, row: Row
) -> None:
    assert_refused(row, here, capsys, monkeypatch)


def test_refusing_a_target_is_quick(here: Path) -> None:
    assert_quick(ROWS, here)


@pytest.fixture
def for_another_user(tmp_path: Path) -> Iterator[Path]:
    """A folder that user 65534 can reach and write, below no folder of ours."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


AS_ANOTHER_USER = """
import os, sys
from advisor.cli import main
main(["tune", "other.py", "--dry-run"])  # imports all it needs while it may read it
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""


def as_another_user(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command as a user who may not read everything."""
    return subprocess.run(
        [sys.executable, "-c", AS_ANOTHER_USER, *words], cwd=folder, capture_output=True, text=True,
        check=False, env=os.environ | {"TMPDIR": str(folder)},
    )  # fmt: skip


def test_8_a_file_that_may_not_be_read_is_said(for_another_user: Path) -> None:
    for name in ("train.py", "other.py"):
        (for_another_user / name).write_text(TRAINING)
    (for_another_user / "train.py").chmod(0)
    done = as_another_user(for_another_user, "tune", "train.py")
    assert done.returncode == 5, done.stderr
    assert done.stderr.startswith("error: cannot read train.py: permission denied\n")


def test_41_a_folder_that_may_not_be_written_is_said_before_anything_runs(for_another_user: Path) -> None:
    for name in ("train.py", "other.py"):
        (for_another_user / name).write_text(TRAINING)
    for_another_user.chmod(0o755)
    done = as_another_user(for_another_user, "tune", "train.py", "--out", "report")
    assert done.returncode == 5, done.stderr
    assert "cannot write to" in done.stderr and done.stderr.count("error:") == 1


@pytest.mark.parametrize("name", ["mod\udcff.py", "\x1b[2J.py"])
def test_10_a_name_with_strange_bytes_is_taken_and_shown_as_an_escape(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (here / name).write_text(TRAINING)
    before = contents(here)
    said = say(capsys, "tune", name, "--dry-run")
    assert (said.code, said.err) == (0, "")
    assert ("mod\\xff.py" if "\udcff" in name else "[2J.py") in said.out
    said.out.encode("utf-8")
    assert contents(here) == before


RUNS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "13 needs arguments": (
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--data', required=True)\nparser.parse_args()\n", (),
        ("usage: train.py", "the following arguments are required: --data",
         "pass its arguments after `--`: `advisor tune train.py -- --data DIR`"),
    ),
    "14 no training step": ("import torch\nprint('done')\n", (),
                            ("no training step found", "hint: write a workload: `advisor init`")),
    "15 too few steps": (
        "import torch\np = torch.nn.Parameter(torch.ones(2))\no = torch.optim.SGD([p], 0.1)\n"
        "for _ in range(7):\n    o.zero_grad()\n    (p ** 2).sum().backward()\n    o.step()\n", (),
        ("only 7 steps ran; 30 are needed", "hint: `--steps 5`, or let the script run longer"),
    ),
    "16 reads stdin": ("input('name? ')\n", (),
                       ("the script asked for input (stdin is closed)",
                        "hint: give the answer as an argument after `--`")),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("source", "options", "told"), RUNS.values(), ids=RUNS)
def test_a_script_that_cannot_be_measured_is_told_in_its_own_words(
    here: Path, warm: Warm, source: str, options: tuple[str, ...], told: tuple[str, ...]
) -> None:
    (here / "train.py").write_text(source)
    words = ["tune", "train.py", "--budget", "60s", *options, "--format", "json"]
    done = warm.run("-m", "advisor", *words, cwd=here)
    assert done.returncode == 3, done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("error:")]) == 1
    for text in told:
        assert text in done.stderr
    assert "site-packages" not in done.stderr and "tuners/" not in done.stderr and SECRET not in done.stderr
    assert not (here / "advisor-report").exists()
