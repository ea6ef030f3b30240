"""Strategies through the command line: tried, compared, refused with reasons, profiled."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from warm import Warm

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


def run(warm: Warm, folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = warm.run("-m", "advisor", *arguments, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def tuned(warm: Warm, folder: Path, *arguments: str, batch: int = 32) -> dict[str, Any]:
    (folder / "work.py").write_text(WORKLOAD.replace("BATCH", str(batch)))
    code, _, err = run(warm, folder, "tune", "work.py", "--budget", "40s", *arguments)
    assert code == 0, err
    result: dict[str, Any] = json.loads((folder / "advisor-report/result.json").read_text())
    return result


@pytest.mark.long
@pytest.mark.alone
def test_strategies_are_measured_beside_one_process(warm: Warm, tmp_path: Path) -> None:
    result = tuned(warm, tmp_path, "--knob", "strategy=single,ddp,local_sgd", "--ranks", "2")
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
    assert_planned(warm, tmp_path)


def assert_planned(warm: Warm, folder: Path) -> None:
    """What was measured is handed to ``advisor plan``: steps, batches, bytes and the length of an epoch."""
    asked = ("--strategy", "ddp", "--ranks", "1,2,4", "--until", "90epochs", "--format", "json")
    code, out, err = run(warm, folder, "plan", "advisor-report", *asked)
    assert code == 0, err
    plan = json.loads(out)
    one, two, four = plan["predictions"]
    assert [row["local_batch"] for row in (one, two, four)] == [16, 16, 16]  # of 32 in all on two ranks
    assert (one["measured"], two["measured"], four["measured"]) == (False, True, False)
    assert four["peak_bytes"]["estimate"] > 0 and four["hours"]["low"] < four["hours"]["high"]
    assert two["hours"]["estimate"] == pytest.approx(90 * 512 / 32 * two["step_ms"]["estimate"] / 3.6e6)
    basis = [row["what"] for row in plan["basis"] if row["tag"] == "measured"]
    parameters = 32 * 64 + 64 + 64 * 64 + 64 + 64 * 4 + 4
    for told in ("exposed communication", f"{4e-6 * parameters:.3g} MB shared in a step", "90 epochs of 512"):
        assert any(what.startswith(told) for what in basis), basis
    assert [law["name"] for law in plan["laws"]] == ["ring", "double_binary_tree"]


def test_more_ranks_than_places_are_a_usage_error(warm: Warm, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORKLOAD.replace("BATCH", "32"))
    code, _, err = run(warm, tmp_path, "tune", "work.py", "--ranks", "4096")
    assert code == 2 and "4096 ranks" in err and "hint: `--ranks " in err


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
def test_a_profile_of_ranks_shows_each_of_them_and_who_is_waited_for(warm: Warm, tmp_path: Path) -> None:
    workload = WORKLOAD.replace("BATCH", "32").replace("dataset=lambda: DATA", "dataset=Data")
    (tmp_path / "work.py").write_text(STRAGGLER + workload)
    arguments = ("--ranks", "2", "--budget", "40s", "--format", "json")
    code, out, err = run(warm, tmp_path, "profile", "work.py", *arguments)
    assert code == 0, err
    document = json.loads(out)
    (found,) = [finding for finding in document["findings"] if finding["rule"] == "straggler"]
    assert found["state"] in ("opportunity", "diagnostic")
    assert "rank 1" in found["title"]
    ranks = document["profile"]["ranks"]
    assert [rank["rank"] for rank in ranks] == [0, 1]
    assert all(rank["step_ms"] > 0 for rank in ranks)
