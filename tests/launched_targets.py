"""A small script and a small workload, whose steps or samples do what a test asks, and their launcher."""

import textwrap
from collections.abc import Callable
from pathlib import Path

from advisor.tuners.launching.launch import Launcher
from advisor.tuners.trial.spec import Target

Make = Callable[..., Target]
SCRIPT = """
import os, time
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def at_step(step):
{body}
for step in range({steps}):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    at_step(step)
"""
WORKLOAD = """
import os, time
import torch
from advisor.workloads.workload import Workload

class Items(torch.utils.data.Dataset):
    def __len__(self): return 4096
    def __getitem__(self, index):
{item}
        return torch.ones(4), torch.ones(2)

workload = Workload(
    model=lambda: torch.nn.Linear(4, 2), dataset=Items, loss=torch.nn.functional.mse_loss,
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1), batch_size=8, num_workers={workers},
)
"""


def indented(code: str, by: int) -> str:
    return textwrap.indent(textwrap.dedent(code).strip(), " " * by)


def a_script(folder: Path, body: str = "pass", steps: int = 100_000) -> Target:
    (folder / "train.py").write_text(SCRIPT.format(body=indented(body, 4), steps=steps))
    return Target("script", str(folder / "train.py"), cwd=str(folder))


def a_workload(folder: Path, item: str = "pass", workers: int = 0) -> Target:
    (folder / "small.py").write_text(WORKLOAD.format(item=indented(item, 8), workers=workers))
    return Target("workload", str(folder / "small.py"), cwd=str(folder))


def a_launcher(target: Target, folder: Path) -> Launcher:
    (folder / "study").mkdir()
    return Launcher(target, folder / "study", device="cpu")
