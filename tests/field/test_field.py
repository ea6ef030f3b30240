"""Of situations from public reports the true cause is told first, and nothing that does not fit.

`make test` judges recorded profiles of all of them, with the fault and without; `make planted` runs all of
them live.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from answers import complaint, spared
from recordings import recorded_profile, said_of
from situations import (
    LIMIT_S,
    PROGRAMS,
    REPAIRED,
    SITUATIONS,
    Situation,
    advisor,
    command,
    recording_of,
)

COMMAND = "python tests/field/record_field.py"


def recorded(situation: Situation, *arguments: str) -> dict[str, Any]:
    place = recording_of(situation, *arguments)
    try:
        return said_of(recorded_profile(situation.path, place.read_text()))
    except (FileNotFoundError, ValueError) as error:
        pytest.fail(f"{error}: run `{COMMAND} {situation.program}`")


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.program)
def test_the_true_cause_of_a_recorded_situation_is_told_first(situation: Situation) -> None:
    reason = complaint(situation, recorded(situation))
    assert not reason, reason


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.program)
def test_the_repaired_program_is_not_accused_of_it(situation: Situation) -> None:
    reason = spared(situation, recorded(situation, REPAIRED))
    assert not reason, reason


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.planted
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.program)
def test_the_true_cause_is_told_first_when_it_is_run(situation: Situation, tmp_path: Path) -> None:
    surroundings = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    if not situation.threads:
        surroundings["OMP_NUM_THREADS"] = "1"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where torchrun lies
    done = subprocess.run(
        advisor(*command(situation)), capture_output=True, text=True, timeout=LIMIT_S, check=False,
        cwd=tmp_path, env={**surroundings, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    reason = complaint(situation, json.loads(done.stdout))
    assert not reason, reason


def test_every_program_is_a_situations() -> None:
    helpers = {"waves_package"}
    names = {path.stem for path in PROGRAMS.glob("*.py")} - helpers
    assert names == {situation.program for situation in SITUATIONS}
