"""The whole sequence on small real programs: workload, script, objects, interrupts, kills, resume."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

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
SLOW = """
import time, sys
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

EPOCHS_OF_32_STEPS = SLOW.replace("4000", "512").replace(
    "for x, y in DataLoader(Stored(), batch_size=16):",
    "loader = DataLoader(Stored(), batch_size=16)\n"
    "for x, y in (batch for epoch in range(EPOCHS) for batch in loader):",
)

NEEDS_ARGUMENTS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.parse_args()
"""


def advisor(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "advisor", *arguments],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def result_of(folder: Path, report: str = "advisor-report") -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / report / "result.json").read_text())
    return data


def a_workload(folder: Path, workers: int = 0) -> str:
    (folder / "work.py").write_text(WORKLOAD.replace("WORKERS", str(workers)))
    return "work.py"


def running_below(folder: Path) -> list[int]:
    """Processes whose command line or folder names ``folder``."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        text = " ".join(process.info["cmdline"] or []) + str(process.info["cwd"] or "")
        if str(folder) in text and process.pid != os.getpid():
            found.append(process.pid)
    return found


def wait_until(condition: Any, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return bool(condition())


@pytest.mark.alone
@pytest.mark.slow
def test_slow_storage_gets_workers_and_the_folder_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SLOW)
    code, out, err = finish(
        advisor(tmp_path, "tune", "train.py", "--knob", "num_workers=0,4", "--budget", "90s")
    )
    assert code == 0, err
    result = result_of(tmp_path)
    assert result["recommendation"]["config"] == {"num_workers": 4}
    assert result["recommendation"]["speedup"]["low"] > 2
    assert result["recommendation"]["numerics"] == "identical"
    assert result["target"]["kind"] == "script"
    assert "num_workers" in out
    assert not (tmp_path / "made_by_script.txt").exists() or any(
        "made_by_script.txt" in text for text in result["warnings"]
    )


@pytest.mark.alone
@pytest.mark.slow
def test_items_kept_in_memory_are_measured_from_the_second_epoch_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(EPOCHS_OF_32_STEPS.replace("EPOCHS", "1000"))
    code, _, err = finish(
        advisor(tmp_path, "tune", "train.py", "--knob", "in_memory_cache", "--budget", "90s")
    )
    assert code == 0, err
    recommendation = result_of(tmp_path)["recommendation"]
    assert recommendation["config"] == {"in_memory_cache": "memory"}
    assert recommendation["numerics"] == "identical"
    assert recommendation["speedup"]["low"] > 4  # nearly all of a step is reading


@pytest.mark.slow
def test_a_run_of_one_epoch_is_told_that_it_has_no_use_for_kept_items(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(EPOCHS_OF_32_STEPS.replace("EPOCHS", "1"))
    code, _, err = finish(
        advisor(tmp_path, "tune", "train.py", "--knob", "in_memory_cache", "--budget", "90s")
    )
    assert code == 0, err
    (left_out,) = result_of(tmp_path)["not_tried"]
    assert left_out["knob"] == "in_memory_cache" and "less than two epochs" in left_out["reason"]


@pytest.mark.slow
def test_a_placebo_is_not_recommended_and_the_baseline_is_trial_0(tmp_path: Path) -> None:
    code, _, err = finish(
        advisor(tmp_path, "tune", a_workload(tmp_path), "--knob", "placebo", "--budget", "60s")
    )
    assert code == 0, err
    result = result_of(tmp_path)
    assert result["recommendation"]["verdict"] == "keep"
    assert result["recommendation"]["config"] == result["baseline"]["config"] == {"placebo": "off"}
    assert [trial["number"] for trial in result["trials"]][:2] == [0, 1]
    assert result["trials"][1]["applied"] == ["placebo"]
    assert result["baseline"]["throughput"]["unit"] == "samples/s"
    assert result["profile"]["phases_ms"]["forward"] > 0


@pytest.mark.slow
def test_trials_of_a_workload_with_workers_leave_no_process_when_the_tuner_is_killed(tmp_path: Path) -> None:
    tuner = advisor(
        tmp_path, "tune", a_workload(tmp_path, workers=2), "--knob", "num_workers", "--budget", "60s"
    )
    assert wait_until(lambda: len(running_below(tmp_path)) > 4, 60)
    time.sleep(1)
    tuner.kill()
    tuner.communicate()
    assert wait_until(lambda: not running_below(tmp_path), 10), running_below(tmp_path)


@pytest.mark.slow
def test_a_killed_study_is_resumed_and_no_acknowledged_trial_is_lost(tmp_path: Path) -> None:
    command = ["tune", a_workload(tmp_path), "--knob", "num_threads=1,2", "--knob", "placebo", "--study", "s"]
    tuner = advisor(tmp_path, *command, "--budget", "60s")
    database = tmp_path / ".advisor" / "studies.db"

    def acknowledged() -> list[int]:
        if not database.exists():
            return []
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            try:
                rows = connection.execute("select number from advisor_trials where finished").fetchall()
            except sqlite3.OperationalError:
                return []
        return sorted(number for (number,) in rows)

    assert wait_until(lambda: len(acknowledged()) >= 2, 60)
    tuner.kill()
    tuner.communicate()
    before = acknowledged()
    code, _, err = finish(advisor(tmp_path, *command, "--budget", "30s", "--resume"))
    assert code == 0, err
    assert set(before) <= set(acknowledged())
    with sqlite3.connect(database) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    code, out, _ = finish(advisor(tmp_path, "report", "s", "--format", "json"))
    assert code == 0
    assert json.loads(out)["study"] == "s"


@pytest.mark.alone
@pytest.mark.slow
def test_an_interrupt_keeps_what_was_measured_and_says_how_to_go_on(tmp_path: Path) -> None:
    tuner = advisor(tmp_path, "tune", a_workload(tmp_path), "--budget", "120s")
    assert wait_until(lambda: (tmp_path / ".advisor" / "studies.db").exists(), 30)
    time.sleep(12)
    tuner.send_signal(signal.SIGINT)
    code, _, err = finish(tuner)
    assert code == 130, err
    assert result_of(tmp_path)["budget"]["stopped_by"] == "interrupted"
    assert "--resume" in err
    assert wait_until(lambda: not running_below(tmp_path), 10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "code", "told"),
    [
        ("import torch\nraise ValueError('my own mistake')\n", 3, "my own mistake"),
        ("import torch\nprint('done')\n", 3, "no training step found"),
        (SLOW.replace("4000", "112"), 3, "only 7 steps ran; 30 are needed"),
        (NEEDS_ARGUMENTS, 3, "--data"),
        ("input('name? ')\n", 3, "stdin"),
    ],
    ids=["raises", "no step", "too short", "needs arguments", "reads stdin"],
)
def test_a_target_that_fails_by_itself_is_told_in_its_own_words(
    tmp_path: Path, source: str, code: int, told: str
) -> None:
    (tmp_path / "train.py").write_text(source)
    exit_code, _, err = finish(advisor(tmp_path, "tune", "train.py", "--budget", "60s"))
    assert exit_code == code, err
    assert told in err
    assert "site-packages" not in err and "tuners/" not in err


@pytest.mark.slow
def test_a_baseline_setting_that_is_fixed_holds_for_every_trial(tmp_path: Path) -> None:
    code, _, err = finish(
        advisor(
            tmp_path,
            "tune",
            a_workload(tmp_path),
            "--fix",
            "num_workers=1",
            "--knob",
            "placebo",
            "--budget",
            "20s",
        )
    )
    assert code == 0, err
    result = result_of(tmp_path)
    assert all(trial["config"]["num_workers"] == 1 for trial in result["trials"])
    assert result["baseline"]["config"]["num_workers"] == 1
