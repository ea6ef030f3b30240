"""A wrong input, what is said about it, and everything that holds for every such answer."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest
from command_line import LIBRARIES, Said, assert_told_once, contents, say

from advisor.cli import AVAILABLE, Commands
from advisor.cli.options import problems_of

SECRET = "s3cret"
TRAINING = "import torch\nmodel = torch.nn.Linear(1, 1)\nfor _ in range(9):\n    model(1).backward()\n"
SECONDS = 3.0  # of CPU; importing the table of knobs takes about 0.5 of them on a quiet machine

Files = Mapping[str, str | bytes]


@dataclass(frozen=True)
class Row:
    """One line of a table of wrong inputs.

    Args:
        words: What is typed behind ``advisor``.
        code: The exit code.
        told: Texts that must appear on stderr.
        untold: Texts that must not.
        files: What lies in the folder, besides ``train.py``.
        lay: Makes what is no plain file.
        environment: Variables that are set.
        quick: The answer must load nothing heavy and take less than a second of processor time.
    """

    words: tuple[str, ...]
    code: int
    told: tuple[str, ...]
    untold: tuple[str, ...] = ()
    files: Files = field(default_factory=dict)
    lay: Callable[[Path], None] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    quick: bool = True


def tune(*words: str) -> tuple[str, ...]:
    """``advisor tune train.py`` and what follows it."""
    return ("tune", "train.py", *words)


def lay_out(row: Row, folder: Path) -> None:
    """The files of a row, beside a script that trains."""
    for name, content in ({"train.py": TRAINING} | dict(row.files)).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if row.lay is not None:
        row.lay(folder)


def assert_refused(
    row: Row, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row holds, and so does all that is true of every refusal, in text and in JSON."""
    lay_out(row, folder)
    for name, value in row.environment.items():
        monkeypatch.setenv(name, value)
    before = contents(folder)
    said = say(capsys, *row.words)
    assert_told_once(said, row.code, row.told)
    assert row.code not in (1, 70)
    assert said.out == ""
    _assert_nothing_leaks(said, row)
    if row.words and not any("--format" in word for word in row.words):
        _assert_json_says_the_same(row, said, say(capsys, *with_json(row.words)))
    assert contents(folder) == before


def with_json(words: tuple[str, ...]) -> tuple[str, ...]:
    """The same command with its answer as one document."""
    return (words[0], "--format=json", *words[1:])


def _assert_nothing_leaks(said: Said, row: Row) -> None:
    text = said.err + said.out
    assert SECRET not in text
    assert str(Path.home()) + os.sep not in text or any(str(Path.home()) in word for word in row.words)
    assert not [word for word in row.untold if word in text]
    assert not [word for word in LIBRARIES if word in text]
    assert not [character for character in text if ord(character) < 32 and character != "\n"]


def _assert_json_says_the_same(row: Row, said: Said, document: Said) -> None:
    assert document.code == row.code
    error = json.loads(document.out)["error"]
    assert sorted(error) == ["cause", "code", "exit_code", "hint", "message", "where"]
    assert error["exit_code"] == row.code
    first = error["message"].splitlines()[0]
    assert first in said.err and first in document.err
    if error["hint"]:
        assert error["hint"].replace(" --format=json", "") in said.err
        assert_parses(error["hint"], row.words[0])


def assert_parses(hint: str, command: str) -> None:
    """Every command or option of ours in a hint is one that can be typed."""
    for part in re.findall(r"`([^`]+)`", hint):
        words = shlex.split(part)
        if words[0] == "advisor":
            words = words[1:]
        elif words[0].startswith("-") and command in AVAILABLE:
            words = [command, *words]
        else:
            continue
        if words == ["--help"]:
            continue
        found = Commands("advisor").get_command(click.Context(click.Group("advisor")), words[0])
        assert found is not None, part
        if "--help" in words:
            continue
        assert problems_of(found.make_context(words[0], words[1:])).found == [], part


RUN_ALL = """
import json, os, sys, time
from advisor.cli import main
for row in json.load(sys.stdin):
    os.chdir(row["folder"])
    os.environ.update(row["environment"])
    began = time.process_time()
    code = main(row["words"])
    took = time.process_time() - began
    for name in row["environment"]:
        del os.environ[name]
    heavy = [name for name in ("torch", "optuna", "scipy") if name in sys.modules]
    print(json.dumps([row["name"], code, took, heavy]))
"""


def assert_quick(rows: Mapping[str, Row], folder: Path) -> None:
    """A process that answers these rows one after the other needs little time and nothing heavy."""
    calls = []
    for number, (name, row) in enumerate(rows.items()):
        if row.quick and not any("\0" in word for word in row.words):
            place = folder / str(number)
            place.mkdir()
            lay_out(row, place)
            calls.append(
                {"name": name, "words": row.words, "folder": str(place), "environment": dict(row.environment)}
            )
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL], input=json.dumps(calls), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}
    assert len(answers) == len(calls)
    for name, (code, took, heavy) in answers.items():
        assert code == rows[name].code, name
        assert heavy == [], name
        assert took < SECONDS, name
