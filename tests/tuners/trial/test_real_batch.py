"""A larger batch for a real program: faster, its samples worth as much, and learning as well."""

import math
import time
from pathlib import Path

import pytest

from advisor.stages.larger_batch import Batching
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.space.space import build_space
from advisor.tuners.trial.spec import Target

SMALL_BATCH = """
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(4096, 32)
y = (x @ torch.randn(32, 4) + 2 * torch.randn(4096, 4)).argmax(1)
model = torch.nn.Linear(32, 4)
sgd = torch.optim.SGD(model.parameters(), lr=0.02)
for epoch in range(10000):
    for a, b in DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True):
        sgd.zero_grad()
        torch.nn.functional.cross_entropy(model(a), b).backward()
        sgd.step()
"""


@pytest.mark.long
@pytest.mark.usefixtures("no_process_remains")
def test_a_batch_that_is_far_too_small_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "train.py").write_text(SMALL_BATCH)
    (tmp_path / "study").mkdir()
    target = Target("script", str(tmp_path / "train.py"), cwd=str(tmp_path))
    with Launcher(target, tmp_path / "study", device="cpu") as launcher:
        session = launcher.start(0, {}, {})
        session.first_step()
        session.slot(16)
        profile = session.facts().profile
        session.stop()
        space = build_space(KNOBS, profile, named={"batch_size": None, "lr_scaling": None})
        arena = Arena(launcher, KNOBS, space.own, training_dataset=0, step_s=0.0005)
        batching = Batching(arena, space, profile, 0.02, 64, time.monotonic() + 300, print)
        advice = batching.advise(space.own)
    ratios = {each.batch_size: math.exp(each.estimate.estimate) for each in advice.measured}
    assert ratios[16] > 1.3 and ratios[32] > ratios[16]  # in every epoch, whose dataset is its own
    assert advice.chosen is not None and advice.chosen.batch_size >= 16
    assert advice.match is not None and advice.match.verdict == "ok"
