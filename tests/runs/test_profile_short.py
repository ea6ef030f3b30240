"""``advisor profile`` of programs that end before it is done with watching them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """\
import time

import torch

torch.manual_seed(0)
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(STEPS):
    time.sleep(0.01)
    loss = model(torch.rand(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

pytestmark = pytest.mark.long  # quick: a script that ends while its requests are counted


@pytest.mark.parametrize(
    ("steps", "watched"),
    [
        pytest.param(80, 28, id="in the warm-up"),
        pytest.param(260, 150, id="while an epoch is waited for"),
    ],
)
def test_what_was_seen_until_a_program_ended_is_told(steps: int, watched: int, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace("STEPS", str(steps)))
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "profile", "train.py", "--budget", "60s", "--format", "json"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert watched <= found["profile"]["steps"] <= steps
    assert found["baseline"]["step_ms"]["low"] > 10
    assert found["profile"]["operators"]
