"""A confirmation that a budget, a Ctrl-C or a crash ended is what a resumed study begins with."""

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import a_profile
from result_builder import a_ratio, a_recommendation, a_result, a_trial

from advisor.keeping import Keeping
from advisor.progress import progress_here
from advisor.result import PlannedRun, ResultData
from advisor.settings import Settings, TargetRequest
from advisor.storage_url import parse_storage
from advisor.store import Store
from advisor.taken_up import is_open, left_open, made, standing
from advisor.tuners.failures import Cause
from advisor.tuners.knob import Value
from advisor.tuners.measure import MOST_INSTANCES
from advisor.tuners.space import Space

GAIN = math.log(1.1)
DEBUGGED = """
import torch
torch.autograd.set_detect_anomaly(True)
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(20)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(1_000_000):
    optimizer.zero_grad()
    model(torch.ones(8, 16)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("medians", "is_left_open"),
    [
        ([], False),
        ([GAIN], True),
        ([GAIN, GAIN, 0.9 * GAIN], True),
        ([-GAIN], False),
        ([GAIN, -GAIN, -GAIN], False),
        ([GAIN, 0.5 * GAIN, GAIN, 1.4 * GAIN, 0.6 * GAIN, 1.5 * GAIN], True),  # no look is sure
        ([GAIN, 1.01 * GAIN, GAIN, 0.99 * GAIN, GAIN, GAIN], False),  # confirmed
        ([GAIN, 1.01 * GAIN, GAIN, 0.99 * GAIN, GAIN, GAIN, 0.5 * GAIN], False),  # by the look before
        (
            [GAIN, 0.5 * GAIN, GAIN, 1.4 * GAIN, 0.6 * GAIN, 1.5 * GAIN, GAIN],
            True,
        ),  # the next look is at eight
        ([GAIN, -GAIN, GAIN, -GAIN, GAIN, 0.0], False),  # nothing to see
        ([GAIN, 0.9 * GAIN] * (MOST_INSTANCES // 2), False),
    ],
)
def test_a_confirmation_is_open_while_it_speaks_for_a_gain_and_not_surely(
    medians: list[float], is_left_open: bool
) -> None:
    assert is_open([[value] for value in medians], min_gain=0.02, level=0.99) is is_left_open


PRESENT: dict[str, Value] = {"amp": "off"}
CHANGED: dict[str, Value] = {"amp": "bf16"}
SETTINGS = Settings(target=TargetRequest(kind="script", name="train.py"))
CONFIRMED = [[GAIN], [1.01 * GAIN], [GAIN], [0.99 * GAIN], [GAIN], [GAIN]]
HALF = CONFIRMED[:3]


def a_space() -> Space:
    return Space(PRESENT, PRESENT, {"amp": ["off", "bf16"]}, [], a_profile())


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[Keeping]:
    """A study that is taken up again."""
    url = parse_storage(f"sqlite:///{tmp_path / 'studies.db'}")
    with Store.open(url, create=True, warn=lambda text: None) as store:
        store.create_study("train", {"target": "train.py"})
        yield Keeping(progress_here(quiet=True), float, 0.0, store, "train", baseline=PRESENT)


def was_confirmed(keeping: Keeping, space: Space, instances: list[list[float]], **trial: Any) -> None:
    """By an earlier part of the study, in trial 1."""
    assert keeping.store is not None
    key = space.key(CHANGED)
    keeping.store.begin("train", 1, CHANGED, key, "confirm")
    for ratios in instances:
        keeping.keep_instance(1, key, ratios)
    ended = a_trial(1, a_ratio(1.1, 1.09, 1.11), config=CHANGED, stage="confirm", **trial)
    keeping.store.record("train", ended, key)


def recommended(keeping: Keeping) -> ResultData:
    """What the earlier part left."""
    assert keeping.store is not None
    found = a_recommendation(config=CHANGED, speedup=a_ratio(1.1, 1.09, 1.11))
    result = a_result(recommendation=found, planned=PlannedRun(changed_seconds=None, seconds=7.0))
    keeping.store.save_result("train", result)
    return result


def undecided() -> ResultData:
    found = a_recommendation(verdict="keep", config=PRESENT, changes=[], reason="interrupted")
    return a_result(recommendation=found, planned=None)


def test_a_run_that_was_stopped_takes_nothing_back(keeping: Keeping) -> None:
    space = a_space()
    was_confirmed(keeping, space, CONFIRMED)
    earlier = recommended(keeping)
    result = standing(undecided(), keeping, space, SETTINGS)
    assert result.recommendation == earlier.recommendation and result.planned == earlier.planned
    killed = a_trial(2, config=CHANGED, stage="confirm", state="failed", cause="killed")
    keeping.trials.append(killed)  # it was being looked at once more
    assert standing(undecided(), keeping, space, SETTINGS).recommendation.verdict == "change"


def test_what_was_looked_at_again_and_does_not_stand_is_taken_back(keeping: Keeping) -> None:
    space = a_space()
    was_confirmed(keeping, space, CONFIRMED)
    recommended(keeping)
    keeping.trials.append(a_trial(2, config=CHANGED, stage="confirm"))
    assert standing(undecided(), keeping, space, SETTINGS).recommendation.verdict == "keep"


def test_nothing_stands_by_a_larger_gain_asked_for_now(keeping: Keeping) -> None:
    space = a_space()
    was_confirmed(keeping, space, CONFIRMED)
    recommended(keeping)
    asked = replace(SETTINGS, min_gain=0.5)
    assert made(keeping, space, SETTINGS) == CHANGED and made(keeping, space, asked) is None
    assert standing(undecided(), keeping, space, asked).recommendation.verdict == "keep"


@pytest.mark.parametrize(
    ("cause", "goes_on"),
    [(None, True), ("killed", True), ("non_finite", False), ("compile_fell_back", False)],
)
def test_a_confirmation_that_failed_by_itself_is_not_gone_on_with(
    keeping: Keeping, cause: Cause | None, goes_on: bool
) -> None:
    space = a_space()
    was_confirmed(keeping, space, HALF, state="complete" if cause is None else "failed", cause=cause)
    assert (left_open(keeping, space, SETTINGS) == CHANGED) is goes_on


def start(folder: Path, *more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "advisor", "tune", "train.py", "--knob", "detect_anomaly", "--study", "s",
         "--budget", "60s", "--out", "out", *more],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def confirmations(folder: Path) -> list[tuple[int, dict[str, Any]]]:
    """The trial and what is kept of each process, in the order they ended."""
    with sqlite3.connect(folder / ".advisor" / "studies.db") as connection:
        rows = connection.execute(
            "select trial, data from advisor_comparisons where kind = 'confirm' order by id"
        )
        return [(number, json.loads(text)) for number, text in rows]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_resumed_study_finishes_its_confirmation_first(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "train.py").write_text(DEBUGGED)
    with start(tmp_path) as first:
        assert first.stderr is not None
        line = "begun"
        while line and ": process 3" not in line:
            line = first.stderr.readline()
        assert line, "it ended before a third process of the confirmation"
        first.send_signal(how)
        first.communicate()
    measured = confirmations(tmp_path)
    assert len(measured) >= 2  # two processes had ended
    with start(tmp_path, "--resume") as second:
        _, said = second.communicate()
    assert second.returncode == 0, said
    assert "going on with the confirmation" in said
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    number, kept = measured[-1]
    new = [trial for trial in result["trials"] if trial["number"] > number]
    assert (new[0]["stage"], new[0]["config"]) == ("confirm", json.loads(kept["key"]))
    assert new[0]["against_baseline"]["instances"] == len(confirmations(tmp_path)) > len(measured)


@pytest.mark.slow
def test_a_resumed_study_does_not_take_back_what_it_confirmed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DEBUGGED)
    found = []
    for more in ((), ("--resume",)):
        with start(tmp_path, *more) as run:
            _, said = run.communicate()
        assert run.returncode == 0, said
        found.append(json.loads((tmp_path / "out" / "result.json").read_text())["recommendation"])
    first, again = found
    assert (first["verdict"], first["config"]["detect_anomaly"]) == ("change", "off")
    assert (again["verdict"], again["config"], again["speedup"]) == (
        "change",
        first["config"],
        first["speedup"],
    )
    assert again["changes"] == first["changes"]
