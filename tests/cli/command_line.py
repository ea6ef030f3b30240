"""A command run as a user runs it, with all that it says and changes."""

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from warm import Warm

from advisor.cli import main
from advisor.stages.device_lock import FOLDER_VARIABLE

HEAVY = ("torch", "optuna", "scipy")
LIBRARIES = ("Traceback", "pydantic", "sqlalchemy", "click.exceptions", "site-packages")


LOADS = """
import sys
from advisor.cli import main
code = main(sys.argv[1:])
print("", *sys.modules, file=sys.stderr)
sys.exit(code)
"""


@dataclass(frozen=True)
class Said:
    """The exit code, and what was written to both streams."""

    code: int
    out: str
    err: str

    @property
    def blocks(self) -> int:
        """How many errors were told."""
        return len(re.findall(r"^error:", self.err, re.MULTILINE))


def go_to(folder: Path, monkeypatch: pytest.MonkeyPatch, logs: Path | None = None) -> Path:
    """Work in a folder without settings in the environment, with logs in ``logs``.

    Locks of devices stay where those of the test are: other runs on this machine are not waited for.
    """
    monkeypatch.chdir(folder)
    if logs is not None:
        monkeypatch.setattr(tempfile, "tempdir", str(logs))
    for name in list(os.environ):
        if name == "WORLD_SIZE" or (name.startswith("ADVISOR_") and name != FOLDER_VARIABLE):
            monkeypatch.delenv(name)
    return folder


def say(capsys: pytest.CaptureFixture[str], *arguments: str) -> Said:
    """Run ``advisor`` with these arguments."""
    code = main(arguments)
    written = capsys.readouterr()
    return Said(code, written.out, written.err)


def loaded_by(light: Warm, *arguments: str, **options: Any) -> tuple[int, set[str]]:
    """The exit code of ``advisor`` with these arguments, and all modules that are loaded at its end.

    Whatever a command's own module imports is there from the beginning.
    """
    done = light.run("-c", LOADS, *arguments, **options)
    return done.returncode, set(done.stderr.splitlines()[-1].split())


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below ``folder``, with its bytes."""
    return {
        os.fsdecode(os.path.relpath(path, folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def assert_told_once(said: Said, code: int, texts: tuple[str, ...]) -> None:
    """An error in our form, with all the texts, and nothing of libraries or of our own source."""
    assert said.code == code, said.err
    assert said.blocks == 1, said.err
    for text in texts:
        assert text in said.err
    assert not [word for word in LIBRARIES if word in said.err]
    assert str(Path(__file__).parents[2]) not in said.err
