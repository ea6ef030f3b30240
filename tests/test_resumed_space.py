"""A study whose program loads faster, or slower, when it is resumed."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

LOADING = """
import os, time
import torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self):
        return 40_000
    def __getitem__(self, index):
        time.sleep(float(os.environ["ITEM_S"]))
        return torch.ones(8)

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(Data(), batch_size=4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    time.sleep(0.004)
"""


def tune(folder: Path, item_s: float, *more: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "tune", "train.py", "--knob", "num_workers", "--knob", "malloc",
         "--study", "s", "--out", "out", *more],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "ITEM_S": str(item_s)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def keys(folder: Path) -> list[set[str]]:
    """The names of the knobs of each trial."""
    with sqlite3.connect(folder / ".advisor" / "studies.db") as connection:
        rows = connection.execute("select key from advisor_trials order by number").fetchall()
    return [set(json.loads(row)) for (row,) in rows]


@pytest.mark.slow
def test_a_resumed_study_tries_what_it_was_begun_with(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOADING)
    tune(tmp_path, 0.004, "--trials", "2", "--budget", "60s")
    first = keys(tmp_path)
    tune(tmp_path, 0.0, "--resume", "--trials", "4", "--budget", "60s")
    both = keys(tmp_path)
    assert len(both) > len(first) >= 2
    assert all(names == first[0] for names in both)
