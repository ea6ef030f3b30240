"""A change that declines once it is confirmed, or in the longer run after that, is left out, and told."""

import math
from pathlib import Path

import pytest
from confirmation_builder import STEP_S, confirmed, some_settings

from advisor.longer_run import run_longer
from advisor.tuners import ablate
from advisor.tuners.declined import Declined, refuse_declined
from advisor.tuners.duel import Arena
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launch import Launcher
from advisor.tuners.measure import Estimate
from advisor.tuners.spec import Target

BOTH: dict[str, Value] = {"execution": "compile", "amp": "bf16"}
WHY = "it acts in the first epoch only"

# Its dataset changes from epoch to epoch, which workers that live on do not see.
PROGRAM = """
import torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    epoch = 0
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return torch.full((4,), float(self.epoch))

if __name__ == "__main__":
    rows = Rows()
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(rows, num_workers=1)
    for epoch in range(10000):
        rows.epoch = epoch
        for batch in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
"""


def test_the_rest_is_confirmed_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    estimate = Estimate(math.log(1.4), 0.3, 0.4, 0.99, 4, 1)
    removals = [ablate.Removal(name, estimate, needed=True) for name in BOTH]
    monkeypatch.setattr(ablate, "removals", lambda *of, **how: (dict(BOTH), removals))
    outcome = confirmed(
        monkeypatch, some_settings("throughput"), STEP_S / 2, nominee=BOTH, refused={"amp": WHY}
    )
    assert (outcome.verdict, outcome.config, outcome.reason) == ("change", {**BOTH, "amp": "off"}, "")
    assert outcome.rejected == {"amp": WHY}
    assert outcome.contributions.keys() == {"execution"}


def test_alone_it_leaves_nothing_to_recommend(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: dict[str, Value] = {"execution": "eager", "amp": "bf16"}
    outcome = confirmed(
        monkeypatch, some_settings("throughput"), STEP_S / 2, nominee=alone, refused={"amp": WHY}
    )
    assert (outcome.verdict, outcome.reason) == ("keep", f"amp: {WHY}")
    assert outcome.decision is None and outcome.config == {"execution": "eager", "amp": "off"}


def test_only_refusals_of_what_is_changed_count() -> None:
    refuse_declined({"refused": {"amp": WHY}, "unmet": []}, ["execution"])
    refuse_declined({"refused": {"amp": WHY}, "unmet": ["amp"]}, ["amp"])
    with pytest.raises(Declined, match=WHY):
        refuse_declined({"refused": {"amp": WHY}, "unmet": []}, ["amp"])


@pytest.mark.slow
def test_a_run_that_reaches_the_second_epoch_shows_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    kept: dict[str, Value] = {"persistent_workers": "on"}
    target = Target("script", str(tmp_path / "train.py"), cwd=str(tmp_path))
    with Launcher(target, tmp_path / "trials") as launcher:
        arena = Arena(launcher, KNOBS, {"persistent_workers": "off"}, step_s=0.001)
        with pytest.raises(Declined, match="persistent_workers"):
            run_longer(arena, kept, 10, 1, list(kept))
