"""Every planted fault is found, and nothing is found in programs that are clean, when they are really run.

Each script is run by `advisor profile` as a user would. The name of a faulty one begins with the id of the
rule that must name its fault. `make test` runs two of them, and judges recorded profiles of all
(`test_recorded.py`); `make planted` runs all of them.
"""

import json
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from programs import (
    CLEAN,
    FAULTS,
    FIRST_SHARE,
    HEADROOM,
    LIMIT_S,
    LOOKS,
    complaint,
    failed,
    fault_in,
    options_of,
    rule_of,
    told,
    told_before,
)

ALWAYS = frozenset({"lstm_forecaster", "retained_graph__list_of_losses"})
"""A clean one and a fault; one that a replay measures is run by `tests/runs/test_profiling.py`."""


@cache
def profiled(path: Path, look: int) -> dict[str, Any]:
    """What ``advisor profile`` says of a script; each look is a run of its own."""
    command = [sys.executable, "-m", "advisor", "profile", str(path), *options_of(path)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=folder
        )
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem in ALWAYS else pytest.mark.planted)
        for path in (*FAULTS, *CLEAN)
    ],
)
def test_a_planted_fault_is_found_and_a_clean_program_gets_no_alarm(path: Path) -> None:
    for look in LOOKS:
        assert not failed(profiled(path, look)), told(failed(profiled(path, look)))
        reason = complaint(path, profiled(path, look))
        if not reason:
            return
        warnings.warn(f"look {look}: {reason}", stacklevel=1)  # what only the second look saw
    pytest.fail(reason)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.planted
def test_the_fault_is_the_first_thing_that_is_told() -> None:
    judged = [path for path in FAULTS if rule_of(path) not in HEADROOM and fault_in(path, profiled(path, 1))]
    missed = {path.stem: before for path in judged if (before := told_before(path, profiled(path, 1)))}
    assert len(missed) <= (1 - FIRST_SHARE) * len(judged), "\n".join(f"{n}: {b}" for n, b in missed.items())


def test_there_are_enough_of_both() -> None:
    assert len(FAULTS) >= 30 and len(CLEAN) >= 12
    assert len({rule_of(path) for path in FAULTS}) >= 25
    assert {path.stem for path in (*FAULTS, *CLEAN)} >= ALWAYS
