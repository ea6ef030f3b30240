"""``advisor apply --verify --write`` on a small real program, from the command to the patched file."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from applied_builder import a_change, a_result_for
from result_builder import a_rate, a_ratio, an_interval

from advisor.cli.machine_checks import torch_build
from advisor.profiles.facts.machine import read_machine
from advisor.result.document import Baseline

WAITING = """\
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.ones(8)


model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in DataLoader(Slow(), batch_size=8):
    optimizer.zero_grad()
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize(
    ("promised", "code"), [((2.0, 1.5, 2.5), 0), ((40.0, 30.0, 50.0), 1)], ids=["kept", "not kept"]
)
def test_a_patch_is_written_only_if_it_gives_what_was_promised(
    tmp_path: Path, promised: tuple[float, float, float], code: int
) -> None:
    file = tmp_path / "train.py"
    file.write_text(WAITING)
    machine = replace(read_machine(), torch=torch_build()[0])
    result = a_result_for(
        file,
        a_change("num_workers", 0, 2),
        machine=machine.as_json(),
        command=["tune", "train.py"],
        baseline=Baseline(
            config={"num_workers": 0, "batch_size": 8}, step_ms=an_interval(17.0), throughput=a_rate(480.0)
        ),
        recommendation={"speedup": a_ratio(*promised), "config": {"num_workers": 2, "batch_size": 8}},
    )
    (tmp_path / "result.json").write_text(result.to_json())
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "apply", "result.json", "--verify", "--write", "--budget", "2m",
         "--format", "json"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=580,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    found = json.loads(done.stdout)
    assert found["verification"]["numerics"] == "identical", found
    assert found["verification"]["measured"]["low"] > 1.3
    assert found["verification"]["verdict"] == ("met" if code == 0 else "missed")
    assert found["status"] == ("written" if code == 0 else "not_written")
    assert ("num_workers=2" in file.read_text()) == (code == 0)
