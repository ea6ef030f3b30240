"""Programs that end before one process has the steps of a comparison."""

import json
from pathlib import Path
from typing import Any

import pytest
from warm import Warm

from advisor.profiles.hooks.step.clock import Step
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.ways import LIVE, WINDOWS
from advisor.tuners.trial.slot import SlotTask

EPOCHS, STEPS = 3, 16
EVALUATED = """
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.Adam(model.parameters())
train = DataLoader(TensorDataset(torch.rand(STEPS * 8, 64)), batch_size=8)
test = DataLoader(TensorDataset(torch.rand(32, 64)), batch_size=8)
for epoch in range(EPOCHS):
    model.train()
    for (x,) in train:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(sum(model(x).mean().item() for (x,) in test))
"""


class LiveKnob:
    live, loading = True, False


def a_step(number: int, *flags: str) -> Step:
    return Step(number, "step", 1_000_000, (), frozenset(flags), 0, 8, "a", 1)


def a_slot(steps: int, **options: Any) -> SlotTask:
    return SlotTask(None, steps, 0, frozenset(), 60.0, "cpu", **options)  # type: ignore[arg-type]  # no run is asked


def test_an_exact_slot_counts_steps_that_are_set_apart() -> None:
    taken = [a_step(0), a_step(1, "evaluation"), a_step(2)]
    exact, clean = a_slot(3, exact=True), a_slot(3)
    assert [exact.take(step) for step in taken] == [False, False, True]
    assert [clean.take(step) for step in taken] == [False, False, False]
    assert clean.take(a_step(3))


def test_a_slot_waits_for_clean_steps_only_where_there_may_be_some(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated = [a_step(number, "evaluation") for number in range(20)]
    waits, does_not = a_slot(3), a_slot(3, awaits_clean=False)
    assert [waits.take(step) for step in evaluated[:16]] == [*[False] * 15, True]
    assert [does_not.take(step) for step in evaluated[:3]] == [False, False, True]
    assert waits.waited_in_vain and does_not.waited_in_vain and not a_slot(1, exact=True).waited_in_vain
    late = a_slot(3)
    monkeypatch.setattr("advisor.tuners.trial.slot.time.perf_counter", lambda: 1e9)
    assert late.take(evaluated[0])  # a slot of long steps has taken its time without a clean one


def test_an_exact_slot_ends_late_too(monkeypatch: pytest.MonkeyPatch) -> None:
    task = a_slot(100, exact=True)
    assert not task.take(a_step(0))
    monkeypatch.setattr("advisor.tuners.trial.slot.time.perf_counter", lambda: 1e9)
    assert task.take(a_step(1))


def test_live_knobs_of_a_program_without_the_steps_of_two_quads_are_compared_by_windows() -> None:
    arena = Arena(None, {"knob": LiveKnob()}, {}, step_s=0.001)  # type: ignore[arg-type, dict-item]  # nothing is started
    arms: tuple[dict[str, int | str], dict[str, int | str]] = ({"knob": 0}, {"knob": 1})
    assert arena.how(*arms) == LIVE
    arena.max_steps = 1_000  # a slot has 150, a quad 600
    assert arena.how(*arms) == WINDOWS
    arena.max_steps = 2_000
    assert arena.how(*arms) == LIVE


@pytest.mark.long
def test_a_program_of_a_few_dozen_steps_with_evaluations_is_tuned(tmp_path: Path, warm: Warm) -> None:
    program = EVALUATED.replace("EPOCHS", str(EPOCHS)).replace("STEPS", str(STEPS))
    (tmp_path / "train.py").write_text(program)
    done = warm.run(
        "-m", "advisor", "tune", "train.py", "--knob", "optimizer_implementation",
        "--trials", "2", "--budget", "30s", "--out", "out", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    tried = [trial for trial in result["trials"] if trial["number"] > 0]
    assert tried and all(trial["state"] in ("complete", "pruned") for trial in tried), tried
