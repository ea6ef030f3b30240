"""A program that keeps its batches, patched as recommended, runs beyond the step at which workers end it."""

import subprocess
from pathlib import Path

import pytest
from edit_tables import asked, edited
from warm import Warm

from advisor.patching.edits.loader_arguments import LoaderArguments
from advisor.patching.edits.sharing_strategy import SharingStrategy

STEPS, LIMIT = 150, 64  # open files
PROGRAM = f"""\
import resource
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))
data = TensorDataset(torch.randn({STEPS * 4}, 8), torch.ones({STEPS * 4}))
loader = DataLoader(data, batch_size=4, num_workers=0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
labels = []
for x, y in loader:
    loss = (model(x).squeeze(1) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    labels.append(y)
print("steps", len(labels))
"""
WORKERS = asked(num_workers=(0, 1))
BY_NAME = asked(sharing_strategy=("file_descriptor", "file_system"))


def run(warm: Warm, program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    (folder / "train.py").write_text(program)
    return warm.run(folder / "train.py", cwd=folder)


@pytest.mark.slow
def test_workers_alone_end_at_the_limit_and_with_names_they_do_not(warm: Warm, tmp_path: Path) -> None:
    with_workers = edited(LoaderArguments(), PROGRAM, WORKERS)
    ended = run(warm, with_workers, tmp_path)
    assert ended.returncode and "steps" not in ended.stdout
    whole = run(warm, edited(SharingStrategy(), with_workers, BY_NAME), tmp_path)
    assert whole.stdout == f"steps {STEPS}\n", whole.stderr[-2000:]
