"""A confirmation that the budget ended is what a resumed study begins with."""

import json
import math
import os
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
        ([GAIN, -GAIN, GAIN, -GAIN, GAIN, 0.0], False),  # nothing to see
        ([GAIN, 0.9 * GAIN] * (MOST_INSTANCES // 2), False),
    ],
)
def test_a_confirmation_is_open_while_it_speaks_for_a_gain_and_not_surely(
    medians: list[float], is_left_open: bool
) -> None:
    assert is_open([[value] for value in medians], min_gain=0.02, level=0.99) is is_left_open


def tune(folder: Path, *more: str) -> tuple[dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "tune", "train.py", "--knob", "detect_anomaly", "--study", "s",
         "--out", "out", *more],
        cwd=folder, capture_output=True, text=True, check=False, timeout=400,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "out" / "result.json").read_text()), done.stderr


def leave_it_after_two_processes(folder: Path) -> dict[str, Any]:
    """As a budget does that ends then; returns the configuration that was being confirmed."""
    with sqlite3.connect(folder / ".advisor" / "studies.db") as connection:
        rows = connection.execute("select id, data from advisor_comparisons where kind = 'confirm'")
        ((number, text),) = rows.fetchall()
        data = {**json.loads(text), "instances": [[GAIN], [GAIN]]}
        connection.execute("update advisor_comparisons set data = ? where id = ?", (json.dumps(data), number))
    config: dict[str, Any] = json.loads(data["key"])
    return config


@pytest.mark.slow
def test_a_resumed_study_finishes_its_confirmation_first(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DEBUGGED)
    first, _ = tune(tmp_path, "--budget", "60s")
    config = leave_it_after_two_processes(tmp_path)
    second, said = tune(tmp_path, "--budget", "60s", "--resume")
    assert "going on with the confirmation" in said
    before = {trial["number"] for trial in first["trials"]}
    new = [trial for trial in second["trials"] if trial["number"] not in before]
    assert (new[0]["stage"], new[0]["config"]) == ("confirm", config)
    assert new[0]["against_baseline"]["instances"] > 2
