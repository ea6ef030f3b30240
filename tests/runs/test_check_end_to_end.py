"""``advisor check`` on small real programs, from the command to its exit code."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from result_builder import a_rate, a_result, an_interval

from advisor.cli.machine_checks import torch_build
from advisor.profiles.facts.machine import read_machine
from advisor.result.document import Baseline
from advisor.result.header import Target

SPINNING = """
import time
import torch

model = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = torch.ones(KEPT, 2**18)  # MiB
for _ in range(100_000):
    optimizer.zero_grad()
    model(torch.ones(8, 32)).sum().backward()
    optimizer.step()
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        pass
"""


def advisor(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "advisor", *arguments], cwd=folder, capture_output=True, text=True,
        check=False, timeout=200, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def gate(folder: Path, seconds: float, kept: int) -> "tuple[int, dict[str, Any]]":
    """The exit code and the document of a check of a step that spins for so long and keeps so many MiB."""
    write_spinning(folder, seconds, kept)
    done = advisor(
        folder, "check", "train.py", "--against", "reference", "--budget", "20s", "--format", "json",
        "--out", "gate",
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert (folder / "gate" / "check.json").read_text() == done.stdout
    return done.returncode, json.loads(done.stdout)


def write_spinning(folder: Path, seconds: float, kept: int) -> None:
    (folder / "train.py").write_text(SPINNING.replace("SECONDS", str(seconds)).replace("KEPT", str(kept)))


@pytest.mark.alone
@pytest.mark.slow
def test_a_slower_step_and_more_memory_fail_the_gate_and_nothing_else_does(tmp_path: Path) -> None:
    write_spinning(tmp_path, 0.010, 1)
    made = advisor(tmp_path, "tune", "train.py", "--knob", "placebo", "--budget", "20s", "--out", "reference")
    assert made.returncode == 0, made.stderr

    code, unchanged = gate(tmp_path, 0.010, 1)
    assert (code, unchanged["verdict"], unchanged["code_changed"]) == (0, "passed", False), unchanged
    assert unchanged["instances"] >= 3

    code, slower = gate(tmp_path, 0.020, 1)
    assert (code, slower["step_ms"]["verdict"], slower["code_changed"]) == (1, "regressed", True), slower
    assert slower["step_ms"]["ratio"]["low"] > 1.3
    assert slower["peak_bytes"]["verdict"] != "regressed"

    code, larger = gate(tmp_path, 0.010, 200)
    assert (code, larger["peak_bytes"]["verdict"]) == (1, "regressed"), larger
    assert larger["step_ms"]["verdict"] != "regressed"


@pytest.mark.slow
def test_a_short_program_is_checked_by_whole_launches(tmp_path: Path) -> None:
    write_spinning(tmp_path, 0.010, 1)
    short = (tmp_path / "train.py").read_text().replace("100_000", "36")
    (tmp_path / "train.py").write_text(short)
    machine = replace(read_machine(), torch=torch_build()[0])
    step, rate = an_interval(40.0), a_rate(200.0)  # samples of a step: 8
    slow = Baseline(config={}, step_ms=step, throughput=rate, peak_bytes=2**33)
    target = Target(path="train.py", kind="script")
    stored = a_result(machine=machine.as_json(), target=target, baseline=slow)
    (tmp_path / "stored.json").write_text(stored.to_json())
    done = advisor(
        tmp_path, "check", "train.py", "--against", "stored.json", "--budget", "20s", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["instances"] >= 8  # six of the baseline, of which one tells its memory, and two more
    assert found["step_ms"]["verdict"] == "improved"
    assert 10 < found["step_ms"]["now"]["estimate"] < 30
    assert found["peak_bytes"]["verdict"] == "improved"
    assert found["code_changed"] is None
