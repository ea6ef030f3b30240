"""What may be given as a target, and what is read when it may not."""

import os
from pathlib import Path

import pytest
from command_line import say

from advisor.base.errors import UsageError
from advisor.base.settings import TargetRequest
from advisor.cli.target import find_target

TRAINING = "import torch\nmodel = torch.nn.Linear(1, 1)\nfor _ in range(9):\n    model(1).backward()\n"
MODEL = "from torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n"


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


def test_two_targets_are_an_error_of_their_own_kind() -> None:
    with pytest.raises(UsageError, match="unexpected extra argument"):
        find_target("a.py", "pkg.train", ())
