"""What is set about workers needs a training loader that has some."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import a_run
from small_training import ROWS, losses_of, watched
from torch.utils.data import DataLoader

from advisor.profiles.events import Run
from advisor.tuners.knobs import KNOBS
from advisor.tuners.worker_knob import NEEDS_WORKERS, NO_LOADER, WorkerSetting

pytestmark = pytest.mark.slow

CHANGED: dict[str, int | str] = {
    "prefetch_factor": 4, "persistent_workers": "on", "in_order": "off",
    "multiprocessing_context": "forkserver", "sharing_strategy": "file_system",
}  # fmt: skip

every_setting = pytest.mark.parametrize("name", CHANGED)


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the program that other processes may read."""
    path = tmp_path / "train.py"
    path.write_text("if __name__ == '__main__':\n    train()\n")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(path), raising=False)


def set_to(name: str) -> Run:
    knobs: dict[str, Any] = {name: type(KNOBS[name])()}  # of a process that has made no loader
    run = a_run(**knobs)
    run.configure({name: CHANGED[name]})
    return run


def test_all_of_them_are_here() -> None:
    assert CHANGED.keys() == {name for name, knob in KNOBS.items() if isinstance(knob, WorkerSetting)}


@every_setting
def test_a_run_without_workers_is_refused(name: str) -> None:
    run = set_to(name)
    assert losses_of(run) == losses_of()
    assert run.refused == {name: NEEDS_WORKERS} and run.applied == set() and run.unanswered() == []


@every_setting
def test_a_run_with_workers_is_not_though_its_evaluation_has_none(name: str) -> None:
    run = set_to(name)
    with watched(run):
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        evaluation = DataLoader(ROWS, batch_size=8)  # the same dataset, and looked at first
        rows: Any = ROWS.tensors[0]  # anything with a length and items is a dataset
        training: DataLoader[Any] = DataLoader(rows, batch_size=8, num_workers=1)
        for batch in evaluation:
            model.eval()(batch[0])
        for batch in training:
            model.train()(batch).mean().backward()
            optimizer.step()
    assert run.applied == {name} and run.refused == {}


@every_setting
def test_a_run_without_a_loader_is_refused(name: str) -> None:
    run = set_to(name)
    with watched(run):
        model = torch.nn.Linear(4, 1)
        model(torch.ones(2, 4)).mean().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert run.refused == {name: NO_LOADER}


@every_setting
def test_a_live_switch_of_another_knob_forgets_no_loader(name: str) -> None:
    run = a_run(**{name: type(KNOBS[name])(), "amp": KNOBS["amp"]})  # type: ignore[arg-type]
    run.configure({name: CHANGED[name]})
    with watched(run):
        model = torch.nn.Linear(4, 1)
        training: DataLoader[Any] = DataLoader(ROWS, batch_size=8, num_workers=1)
        for amp in ("bf16", "off"):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # another one after the switch
            for batch in training:
                model(batch[0]).mean().backward()
                optimizer.step()
            run.configure({name: CHANGED[name], "amp": amp})
    assert run.refused == {}
