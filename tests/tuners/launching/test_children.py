"""A program whose processes train while it only waits is ended at once, and told why."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from advisor.base.errors import TargetError
from advisor.profiles.hooks.surroundings.children import FILE
from advisor.stages.target_failures import target_error
from advisor.tuners.launching.children import SETTLED_S, WAITED_S, ChildrenLook
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.trial.spec import Target

pytestmark = pytest.mark.usefixtures("warm_trials")
PROGRAM = """
import sys, time
import torch
import torch.multiprocessing as mp

def learner(rank, steps):
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        model(torch.ones(8, 4)).sum().backward()
        optimizer.step()
        time.sleep(0.01)

def watcher(steps):
    time.sleep(0.01 * steps)

if __name__ == "__main__":
    mp.set_start_method("{method}")
    children = [mp.Process(target=learner, args=(rank, {steps})) for rank in range(2)]
    children.append(mp.Process(target=watcher, args=({steps},), daemon=True))
    for child in children:
        child.start()
    for child in children:
        child.join()
    print("joined", [child.exitcode for child in children], flush=True)
    learner(0, 50)
"""


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def a_launcher(tmp_path: Path, source: str) -> Launcher:
    program = tmp_path / "train.py"
    program.write_text(source)
    (tmp_path / "study").mkdir()
    target = Target("script", str(program), cwd=str(tmp_path))
    return Launcher(target, tmp_path / "study", device="cpu", scratch=tmp_path / "scratch")


@pytest.mark.slow
@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.long), "fork"])
def test_a_program_whose_children_train_is_told_so_at_once(tmp_path: Path, method: str) -> None:
    launcher = a_launcher(tmp_path, PROGRAM.format(method=method, steps=100_000))
    session = launcher.start(1, {}, {})
    with pytest.raises(TrialFailed) as failed:
        session.first_step()
    failure = failed.value.failure
    assert failure.message == (
        "no step was taken in the program's own process: it started 3 processes by multiprocessing, of which "
        f"2 train in learner(), each with 1 thread on {len(os.sched_getaffinity(0))} CPUs"
    )
    assert failure.where == f"{tmp_path / 'train.py'}:6"
    error = target_error(failure, None, "profile")
    assert isinstance(error, TargetError) and error.code == "trains_in_children"


@pytest.mark.slow
def test_a_program_that_trains_itself_after_its_children_is_followed(tmp_path: Path) -> None:
    launcher = a_launcher(tmp_path, PROGRAM.format(method="fork", steps=20))
    session = launcher.start(1, {}, {})
    session.first_step()
    outcome = session.stop()
    assert outcome.failure is None
    assert "joined [0, 0, 0]" in (session.folder / "stdout.log").read_text()


def told(folder: Path, *lines: dict[str, Any]) -> ChildrenLook:
    (folder / FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ChildrenLook(folder)


PIDS = (1, 2, os.getpid(), os.getppid())  # of processes that run
STARTED = [{"pid": pid, "name": "learner", "at": "train.py:9"} for pid in PIDS]


def test_children_that_do_not_train_are_no_reason(tmp_path: Path) -> None:
    ChildrenLook(tmp_path).look(0.0)
    look = told(tmp_path, *STARTED)
    for seconds in range(100):
        look.look(float(seconds))


def test_children_that_have_trained_and_ended_are_no_reason(tmp_path: Path) -> None:
    look = told(
        tmp_path, {"pid": 2**22 + 1, "name": "pretrain", "at": None}, {"pid": 2**22 + 1, "threads": 1}
    )
    for seconds in range(100):
        look.look(float(seconds))


def test_too_many_threads_of_children_that_train_are_named_with_what_fits(tmp_path: Path) -> None:
    look = told(tmp_path, *STARTED, *({"pid": each["pid"], "threads": 64} for each in STARTED))
    look.look(10.0)
    with pytest.raises(TrialFailed, match=r"4 train in learner.*take turns.*set_num_threads") as failed:
        look.look(10.0 + SETTLED_S)
    assert failed.value.failure.where == "train.py:9"


WILL = [{**each, "trains": True, "opens": 8, "chooses": True} for each in STARTED]


def test_a_program_that_waits_for_children_that_will_train_is_told_before_they_do(tmp_path: Path) -> None:
    look = told(tmp_path, *WILL, {"waits": [os.getppid()]})
    look.look(10.0)
    with pytest.raises(TrialFailed, match=r"of which 4 train .*, each with 8 threads unless it sets fewer"):
        look.look(10.0 + WAITED_S)


def test_one_that_goes_on_beside_children_that_will_train_is_followed(tmp_path: Path) -> None:
    look = told(tmp_path, *WILL, {"waits": [2**22 + 1]})  # it has waited, for one that has ended
    for seconds in range(100):
        look.look(float(seconds))


SPAWNED = """
import time
import torch, torch.multiprocessing as mp

class Worker:
    def run(self):
        for part in [0]:
            time.sleep(100)
            torch.zeros(1, requires_grad=True).sum().backward()
            self.optimizer.step()

def main_worker(rank, world):
    Worker().run()

if __name__ == "__main__":
    mp.spawn(main_worker, args=(2,), nprocs=2)
"""


@pytest.mark.slow
def test_children_of_spawn_are_known_to_train_by_their_code(tmp_path: Path) -> None:
    launcher = a_launcher(tmp_path, SPAWNED)
    with pytest.raises(TrialFailed, match=r"2 processes .*, of which 2 train in main_worker\(\), each with"):
        launcher.start(1, {}, {}).first_step()
