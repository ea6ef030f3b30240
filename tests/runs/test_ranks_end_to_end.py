"""Strategies through the command line: tried, compared, refused with reasons, profiled."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs"),
    pytest.mark.usefixtures("no_process_remains"),
]

WORKLOAD = """
import torch
from advisor import Workload

torch.manual_seed(0)
DATA = torch.utils.data.TensorDataset(torch.randn(512, 32), torch.randint(4, (512,)))

def model():
    torch.manual_seed(0)
    first, second, last = torch.nn.Linear(32, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 4)
    return torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.ReLU(), last)

workload = Workload(
    model=model, dataset=lambda: DATA, batch_size=BATCH, loss=torch.nn.functional.cross_entropy,
    optimizer=lambda params: torch.optim.SGD(params, lr=0.1),
)
"""
SCRIPT = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100_000):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
"""


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "advisor", *arguments],
        cwd=folder, text=True, capture_output=True, timeout=300, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def tuned(folder: Path, *arguments: str, batch: int = 32) -> dict[str, Any]:
    (folder / "work.py").write_text(WORKLOAD.replace("BATCH", str(batch)))
    code, _, err = run(folder, "tune", "work.py", "--budget", "40s", *arguments)
    assert code == 0, err
    result: dict[str, Any] = json.loads((folder / "advisor-report/result.json").read_text())
    return result


@pytest.mark.alone
@pytest.mark.slow
def test_strategies_are_measured_beside_one_process(tmp_path: Path) -> None:
    result = tuned(tmp_path, "--knob", "strategy=single,ddp,local_sgd", "--ranks", "2")
    assert result["baseline"]["config"] == {"ranks": 1, "strategy": "single"}
    trials = {trial["config"]["strategy"]: trial for trial in result["trials"][1:]}
    assert trials.keys() == {"ddp", "local_sgd"}
    ddp = trials["ddp"]
    assert (ddp["state"], ddp["config"]["ranks"], ddp["process"]) == ("complete", 2, "own")
    assert ddp["ranks"]["count"] == 2 and ddp["ranks"]["bytes_per_step"] > 0
    assert sorted(ddp["applied"]) == ["ranks", "strategy"]
    assert result["recommendation"]["config"]["strategy"] != "local_sgd"  # it learns otherwise
    assert len(trials["local_sgd"]["losses"]) > 1
    page = (tmp_path / "advisor-report/report.html").read_text()
    assert "local_sgd" in page and "ranks" in page


@pytest.mark.slow
def test_a_batch_that_cannot_be_divided_is_refused_with_the_reason(tmp_path: Path) -> None:
    result = tuned(tmp_path, "--knob", "strategy=single,ddp", "--ranks", "2", batch=31)
    assert [trial["number"] for trial in result["trials"]] == [0]
    reasons = {entry["knob"]: entry["reason"] for entry in result["not_tried"]}
    assert reasons["strategy"] == "a batch of 31 cannot be divided among 2 ranks"


def test_more_ranks_than_places_are_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORKLOAD.replace("BATCH", "32"))
    code, _, err = run(tmp_path, "tune", "work.py", "--ranks", "4096")
    assert code == 2 and "4096 ranks" in err and "hint: `--ranks " in err


@pytest.mark.slow
def test_a_script_says_how_strategies_can_be_tried(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    arguments = ("--knob", "strategy=single,zero", "--ranks", "2", "--budget", "20s")
    code, _, err = run(tmp_path, "tune", "train.py", *arguments)
    assert code == 0, err
    result = json.loads((tmp_path / "advisor-report/result.json").read_text())
    assert ["advisor init" in entry["reason"] for entry in result["not_tried"]] == [True]


STRAGGLER = """
import time
import torch
import torch.distributed as dist

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 512
    def __getitem__(self, index):
        if dist.is_initialized() and dist.get_rank() == 1:
            time.sleep(0.001)
        return torch.randn(32), index % 4
"""


@pytest.mark.slow
def test_a_rank_that_others_wait_for_is_found(tmp_path: Path) -> None:
    workload = WORKLOAD.replace("BATCH", "32").replace("dataset=lambda: DATA", "dataset=Data")
    (tmp_path / "work.py").write_text(STRAGGLER + workload)
    arguments = ("--ranks", "2", "--budget", "40s", "--format", "json")
    code, out, err = run(tmp_path, "profile", "work.py", *arguments)
    assert code == 0, err
    (found,) = [finding for finding in json.loads(out)["findings"] if finding["rule"] == "straggler"]
    assert found["state"] in ("opportunity", "diagnostic")
    assert "rank 1" in found["title"]


@pytest.mark.slow
def test_a_profile_of_ranks_shows_each_of_them(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORKLOAD.replace("BATCH", "32"))
    arguments = ("--ranks", "2", "--budget", "40s", "--format", "json")
    code, out, err = run(tmp_path, "profile", "work.py", *arguments)
    assert code == 0, err
    ranks = json.loads(out)["profile"]["ranks"]
    assert [rank["rank"] for rank in ranks] == [0, 1]
    assert all(rank["step_ms"] > 0 for rank in ranks)
