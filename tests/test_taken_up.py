"""A confirmation that a budget, a Ctrl-C or a crash ended is what a resumed study begins with."""

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from advisor.taken_up import is_open
from advisor.tuners.measure import MOST_INSTANCES

GAIN = math.log(1.1)
DEBUGGED = """
import torch
torch.autograd.set_detect_anomaly(True)
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(20)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(1_000_000):
    optimizer.zero_grad()
    model(torch.ones(8, 16)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("medians", "is_left_open"),
    [
        ([], False),
        ([GAIN], True),
        ([GAIN, GAIN, 0.9 * GAIN], True),
        ([-GAIN], False),
        ([GAIN, -GAIN, -GAIN], False),
        ([GAIN, 0.5 * GAIN, GAIN, 1.4 * GAIN, 0.6 * GAIN, 1.5 * GAIN], True),  # no look is sure
        ([GAIN, 1.01 * GAIN, GAIN, 0.99 * GAIN, GAIN, GAIN], False),  # confirmed
        ([GAIN, 1.01 * GAIN, GAIN, 0.99 * GAIN, GAIN, GAIN, 0.5 * GAIN], False),  # by the look before
        (
            [GAIN, 0.5 * GAIN, GAIN, 1.4 * GAIN, 0.6 * GAIN, 1.5 * GAIN, GAIN],
            True,
        ),  # the next look is at eight
        ([GAIN, -GAIN, GAIN, -GAIN, GAIN, 0.0], False),  # nothing to see
        ([GAIN, 0.9 * GAIN] * (MOST_INSTANCES // 2), False),
    ],
)
def test_a_confirmation_is_open_while_it_speaks_for_a_gain_and_not_surely(
    medians: list[float], is_left_open: bool
) -> None:
    assert is_open([[value] for value in medians], min_gain=0.02, level=0.99) is is_left_open


def start(folder: Path, *more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "advisor", "tune", "train.py", "--knob", "detect_anomaly", "--study", "s",
         "--budget", "60s", "--out", "out", *more],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def confirmations(folder: Path) -> list[tuple[int, dict[str, Any]]]:
    """The trial and what is kept of each process, in the order they ended."""
    with sqlite3.connect(folder / ".advisor" / "studies.db") as connection:
        rows = connection.execute(
            "select trial, data from advisor_comparisons where kind = 'confirm' order by id"
        )
        return [(number, json.loads(text)) for number, text in rows]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_resumed_study_finishes_its_confirmation_first(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "train.py").write_text(DEBUGGED)
    with start(tmp_path) as first:
        assert first.stderr is not None
        line = "begun"
        while line and ": process 3" not in line:
            line = first.stderr.readline()
        assert line, "it ended before a third process of the confirmation"
        first.send_signal(how)
        first.communicate()
    measured = confirmations(tmp_path)
    assert len(measured) >= 2  # two processes had ended
    with start(tmp_path, "--resume") as second:
        _, said = second.communicate()
    assert second.returncode == 0, said
    assert "going on with the confirmation" in said
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    number, kept = measured[-1]
    new = [trial for trial in result["trials"] if trial["number"] > number]
    assert (new[0]["stage"], new[0]["config"]) == ("confirm", json.loads(kept["key"]))
    assert new[0]["against_baseline"]["instances"] == len(confirmations(tmp_path)) > len(measured)


@pytest.mark.slow
def test_a_resumed_study_does_not_take_back_what_it_confirmed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DEBUGGED)
    found = []
    for more in ((), ("--resume",)):
        with start(tmp_path, *more) as run:
            _, said = run.communicate()
        assert run.returncode == 0, said
        found.append(json.loads((tmp_path / "out" / "result.json").read_text())["recommendation"])
    first, again = found
    assert (first["verdict"], first["config"]["detect_anomaly"]) == ("change", "off")
    assert (again["verdict"], again["config"], again["speedup"]) == (
        "change",
        first["config"],
        first["speedup"],
    )
    assert again["changes"] == first["changes"]
