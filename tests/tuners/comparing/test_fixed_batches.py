"""Numbers are compared on the same batches, whatever a change does to the loader."""

from collections.abc import Iterator

import pytest
from warm import Warm
from warm_trials import WarmSubprocess

from advisor.tuners.comparing import gate
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.knob import Semantics, Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching import launch, zygote
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.trial.spec import Target

STEPS = 12  # of 8 in an epoch
AUGMENTING = """
import os
import torch
from torch import nn
from advisor.workloads.workload import Workload

class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        assert torch.utils.data.get_worker_info() is None
        return torch.full((4,), index / 64) + torch.randn(4), index % 2

workload = Workload(
    model=lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2)),
    dataset=Noisy,
    loss=nn.functional.cross_entropy,
    optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    batch_size=8,
    num_workers=1,
)
"""
PRESENT: dict[str, Value] = {
    "num_workers": 1, "persistent_workers": "off", "prefetch_factor": 2, "in_order": "on",
    "multiprocessing_context": "fork", "batch_size": 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory, _warm_server: Warm) -> Iterator[Arena]:
    folder = tmp_path_factory.mktemp("augmenting")
    file = folder / "train.py"
    file.write_text(AUGMENTING)
    (folder / "study").mkdir()
    target = Target("workload", str(file), cwd=str(folder))
    with pytest.MonkeyPatch.context() as patch:
        for module in (launch, zygote):
            patch.setattr(module, "subprocess", WarmSubprocess(_warm_server))
        with Launcher(target, folder / "study", device="cpu") as launcher:
            yield Arena(launcher, KNOBS, PRESENT)


@pytest.fixture(scope="module")
def baseline(arena: Arena) -> gate.Reference:
    return gate.reference(arena, PRESENT, STEPS)


@pytest.mark.parametrize(
    "changed",
    [
        {"num_workers": 2},
        {"num_workers": 0},
        {"num_workers": 2, "persistent_workers": "on", "prefetch_factor": 4},
        {"in_order": "off", "multiprocessing_context": "forkserver", "num_workers": 2},
    ],
    ids=str,
)
def test_a_loader_is_changed_and_the_batches_stay(
    arena: Arena, baseline: gate.Reference, changed: dict[str, Value]
) -> None:
    learned = gate.learn(arena, {**PRESENT, **changed}, STEPS)
    assert learned.refused == {}
    assert learned.losses == baseline.losses
    verdict = gate.judge(baseline, learned.losses, Semantics.EXACT, own_draws=False, norms=learned.grad_norms)
    assert verdict.verdict == "identical"


def test_another_batch_size_makes_other_batches(arena: Arena, baseline: gate.Reference) -> None:
    learned = gate.learn(arena, {**PRESENT, "batch_size": 16, "num_workers": 2}, STEPS)
    assert learned.refused == {} and len(learned.losses) == STEPS
    assert learned.losses[0] != baseline.losses[0]


def test_another_seed_draws_other_numbers(baseline: gate.Reference) -> None:
    assert baseline.losses == baseline.again and baseline.losses not in baseline.seeds
