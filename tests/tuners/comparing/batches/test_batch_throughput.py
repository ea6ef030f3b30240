"""Larger batches compared in one process whose loader goes over to them, and in their own where it cannot."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from builders import a_loader, a_profile, an_optimizer

from advisor.tuners.comparing.batches.batch_throughput import PAIRS, Measured, propose_batches
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.windows import queue_depth
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space
from advisor.tuners.trial.spec import Target

BATCH, EPOCH = 4, 60
LOOP = "for batch in loader:"
BY_LENGTH = "taking = iter(loader)\n    for _ in range(length):\n        batch = next(taking)"
SCRIPT = """
import time
import torch
from torch.utils.data import DataLoader

torch.set_num_threads(1)
loader = DataLoader(list(range(EPOCH * BATCH)), BATCH, shuffle=True)
length = len(loader)
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=1e-9)
for epoch in range(10_000):
    LOOP
        time.sleep(0.004)  # of every step, however many samples it has
        optimizer.zero_grad()
        (weight * batch).sum().backward()
        optimizer.step()
        print(epoch, len(batch), flush=True)
"""
PRESENT = Configuration({"batch_size": BATCH, "lr_scaling": "none", "num_workers": 0})
LOADER = a_loader(batch_size=BATCH, dataset_length=EPOCH * BATCH, num_workers=0)
SPACE = Space(
    PRESENT, PRESENT, {"batch_size": [BATCH, 2 * BATCH]}, [],
    a_profile(loader=LOADER, optimizers=(an_optimizer(),)),
)  # fmt: skip


@pytest.fixture
def launcher(tmp_path: Path, request: pytest.FixtureRequest, warm_trials: object) -> Iterator[Launcher]:
    told = SCRIPT.replace("EPOCH", str(EPOCH)).replace("BATCH", str(BATCH)).replace("LOOP", request.param)
    (tmp_path / "train.py").write_text(told)
    with Launcher(Target("script", str(tmp_path / "train.py"), cwd=str(tmp_path)), tmp_path / "logs") as of:
        yield of


def proposed(launcher: Launcher, space: Space = SPACE) -> tuple[list[Measured], Arena]:
    arena = Arena(launcher, KNOBS, PRESENT, step_s=0.005, queue_depth=queue_depth)
    return propose_batches(arena, space, PRESENT, math.inf, lambda text: None), arena


@pytest.mark.parametrize("launcher", [LOOP], indirect=True)
def test_one_process_has_both_sizes_in_turn(launcher: Launcher) -> None:
    (found,), arena = proposed(launcher)
    assert launcher.launches == 1 and found.batch_size == 2 * BATCH
    assert 1.3 < math.exp(found.estimate.estimate) < 2.5 and found.estimate.quads == PAIRS
    steps = [line.split() for line in (Path(arena.log or "") / "stdout.log").read_text().splitlines()]
    sizes: dict[int, int] = {}
    for epoch, size in steps:
        sizes[int(epoch)] = sizes.get(int(epoch), 0) + int(size)
    last = max(sizes)
    assert {size for _, size in steps} >= {str(BATCH), str(2 * BATCH)} and last >= 2
    assert all(samples == EPOCH * BATCH for epoch, samples in sizes.items() if epoch != last)


@pytest.mark.parametrize("launcher", [BY_LENGTH], indirect=True)
def test_a_program_that_counts_on_its_length_is_started_for_each(launcher: Launcher) -> None:
    (found,), _ = proposed(launcher)
    assert launcher.launches > 2 and 1.3 < math.exp(found.estimate.estimate) < 2.5


@pytest.mark.parametrize("launcher", [LOOP], indirect=True)
def test_a_loader_that_cannot_be_switched_has_a_process_for_each(launcher: Launcher) -> None:
    fixed = replace(LOADER, fixed="its dataset is a data pipe")
    (found,), _ = proposed(launcher, replace(SPACE, profile=replace(SPACE.profile, loader=fixed)))
    assert launcher.launches >= 2 and found.estimate.instances == 2
