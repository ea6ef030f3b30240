"""Real runs, from the command to what it leaves: each kind of target once, each asserting several things.

The sequence of a run is tested on replayed programs (``test_whole_run.py``).
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from applied_builder import a_change, a_result_for
from result_builder import a_rate, a_ratio, an_interval
from supervised import until
from warm import Warm

from advisor.cli.machine_checks import torch_build
from advisor.profiles.facts.machine import read_machine
from advisor.result.document import Baseline

WORKLOAD = """
import torch
from advisor import Workload

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 512
    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        x = torch.randn(16, generator=generator)
        return x, (x.sum() > 0).long()

workload = Workload(
    model=lambda: torch.nn.Linear(16, 2), dataset=Data, batch_size=16, num_workers=WORKERS,
    loss=torch.nn.functional.cross_entropy, optimizer=lambda params: torch.optim.SGD(params, lr=0.1),
)
"""
SLOW = """\
import time
import torch
from torch.utils.data import DataLoader, Dataset


class Stored(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        time.sleep(0.002)
        x = torch.full((8,), index / 4000)
        return x, (x.sum() > 4).long()


torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
open("made_by_script.txt", "w").write("x")
for x, y in DataLoader(Stored(), batch_size=16):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
IN_EPOCHS = SLOW.replace("4000", "512").replace(
    "for x, y in DataLoader(Stored(), batch_size=16):",
    "loader = DataLoader(Stored(), batch_size=16)\n"
    "for x, y in (batch for epoch in range(1000) for batch in loader):",
)
WORSE = SLOW.replace("time.sleep(0.002)", "time.sleep(0.008)").replace(
    "\nfor x", "\nkept = torch.ones(300, 2**18)  # MiB\nfor x"
)
NEEDS_ARGUMENTS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.parse_args()
"""

pytestmark = pytest.mark.slow


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "advisor", *arguments],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finished(folder: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    """What a command said to stdout and stderr."""
    process = start(folder, *arguments)
    out, err = process.communicate(timeout=500)
    assert process.returncode == code, err
    return out, err


def result_of(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "advisor-report" / "result.json").read_text())
    return data


def running_below(folder: Path) -> list[int]:
    """Processes whose command line or folder names ``folder``."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        text = " ".join(process.info["cmdline"] or []) + str(process.info["cwd"] or "")
        if str(folder) in text and process.pid != os.getpid():
            found.append(process.pid)
    return found


@pytest.mark.alone
def test_a_script_is_tuned_and_checked_against_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SLOW)
    out, _ = finished(tmp_path, "tune", "train.py", "--knob", "num_workers=0,4", "--budget", "180s")
    result = result_of(tmp_path)
    found = result["recommendation"]
    assert found["config"] == {"num_workers": 4} and "num_workers" in out
    assert found["speedup"]["low"] > 2 and found["numerics"] == "identical"
    assert result["target"]["kind"] == "script"
    assert not (tmp_path / "made_by_script.txt").exists() or any(
        "made_by_script.txt" in text for text in result["warnings"]
    )
    (tmp_path / "train.py").write_text(WORSE)
    gate = ("check", "train.py", "--against", "advisor-report", "--budget", "20s", "--format", "json")
    worse = json.loads(finished(tmp_path, *gate, "--out", "gate", code=1)[0])
    assert (worse["step_ms"]["verdict"], worse["peak_bytes"]["verdict"]) == ("regressed", "regressed"), worse
    assert worse["step_ms"]["ratio"]["low"] > 1.3 and worse["code_changed"]
    assert json.loads((tmp_path / "gate" / "check.json").read_text()) == worse


@pytest.mark.long
@pytest.mark.alone
def test_a_module_is_tuned_from_the_second_epoch_on(tmp_path: Path) -> None:
    (tmp_path / "items.py").write_text(IN_EPOCHS)
    finished(tmp_path, "tune", "-m", "items", "--knob", "in_memory_cache", "--budget", "90s")
    found = result_of(tmp_path)["recommendation"]
    assert found["config"] == {"in_memory_cache": "memory"} and found["numerics"] == "identical"
    assert found["speedup"]["low"] > 4  # nearly all of a step is reading
    gate = ("check", "-m", "items", "--against", "advisor-report", "--budget", "20s", "--format", "json")
    unchanged = json.loads(finished(tmp_path, *gate)[0])
    assert (unchanged["verdict"], unchanged["code_changed"]) == ("passed", False), unchanged
    assert unchanged["instances"] >= 3


@pytest.mark.long
def test_a_workload_whose_tuner_was_killed_leaves_no_process_and_is_resumed(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORKLOAD.replace("WORKERS", "2"))
    command = ["tune", "work.py", "--knob", "gc_freeze", "--knob", "placebo", "--fix", "num_workers=1",
               "--study", "s"]  # fmt: skip
    database = tmp_path / ".advisor" / "studies.db"

    def acknowledged() -> set[int]:
        if not database.exists():
            return set()
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            try:
                rows = connection.execute("select number from advisor_trials where finished").fetchall()
            except sqlite3.OperationalError:
                return set()
        return {number for (number,) in rows}

    tuner = start(tmp_path, *command, "--budget", "5m")  # it is killed long before, however busy the machine
    until(lambda: tuner.poll() is not None or len(acknowledged()) >= 2, 300)
    assert tuner.poll() is None and running_below(tmp_path)
    tuner.kill()
    tuner.communicate()
    until(lambda: not running_below(tmp_path), 60)
    before = acknowledged()
    finished(tmp_path, *command, "--budget", "20s", "--resume")
    assert before <= acknowledged()
    with sqlite3.connect(database) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    result = result_of(tmp_path)
    assert (result["study"], result["target"]["kind"]) == ("s", "workload")
    assert all(trial["config"]["num_workers"] == 1 for trial in [result["baseline"], *result["trials"]])
    assert result["baseline"]["throughput"]["unit"] == "samples/s"
    assert result["profile"]["phases_ms"]["forward"] > 0
    assert json.loads(finished(tmp_path, "report", "s", "--format", "json")[0])["study"] == "s"


def kept_trials(folder: Path) -> int:
    """How many trials of the project's one study have ended, the baseline among them."""
    file = folder / ".advisor" / "studies.db"
    if not file.exists():
        return 0
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        try:
            (count,) = database.execute("SELECT count(*) FROM advisor_trials WHERE finished").fetchone()
        except sqlite3.OperationalError:  # it is being made, or written
            return 0
    return int(count)


def test_a_launcher_s_program_is_interrupted_and_what_was_measured_is_kept(
    warm: Warm, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(IN_EPOCHS)
    command = (
        "--exec",
        "--knob",
        "num_workers=0,1,2,3,4",
        "--budget",
        "120s",
        "--",
        sys.executable,
        "train.py",
    )
    tuner = warm.start("-m", "advisor", "tune", *command, cwd=tmp_path)
    until(lambda: tuner.poll() is not None or kept_trials(tmp_path) >= 2, 300)
    tuner.send_signal(signal.SIGINT)
    _, err = tuner.communicate(timeout=120)
    assert tuner.returncode == 128 + signal.SIGINT and "--resume" in err
    result = result_of(tmp_path)
    assert result["budget"]["stopped_by"] == "interrupted"
    assert [trial["state"] for trial in result["trials"][:2]] == ["complete", "complete"]
    until(lambda: not running_below(tmp_path), 60)


def test_a_script_that_needs_arguments_is_told_so_in_its_own_words(warm: Warm, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NEEDS_ARGUMENTS)
    done = warm.run("-m", "advisor", "tune", "train.py", "--budget", "60s", cwd=tmp_path)
    err = done.stderr
    assert done.returncode == 3 and "--data" in err and "pass its arguments after `--`" in err
    assert "site-packages" not in err and "tuners/" not in err


@pytest.mark.long
@pytest.mark.alone
def test_a_patch_that_gives_what_was_promised_is_written(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(SLOW)
    result = a_result_for(
        file,
        a_change("num_workers", 0, 2),
        machine=replace(read_machine(), torch=torch_build()[0]).as_json(),
        command=["tune", "train.py"],
        baseline=Baseline(
            config={"num_workers": 0, "batch_size": 16}, step_ms=an_interval(34.0), throughput=a_rate(480.0)
        ),
        recommendation={
            "speedup": a_ratio(2.0, 1.5, 2.5), "config": {"num_workers": 2, "batch_size": 16},
        },
    )  # fmt: skip
    (tmp_path / "result.json").write_text(result.to_json())
    verify = ("apply", "result.json", "--verify", "--write", "--budget", "2m", "--format", "json")
    found = json.loads(finished(tmp_path, *verify)[0])
    assert found["verification"]["numerics"] == "identical", found
    assert found["verification"]["measured"]["low"] > 1.3
    assert (found["verification"]["verdict"], found["status"]) == ("met", "written")
    assert "num_workers=2" in file.read_text()
