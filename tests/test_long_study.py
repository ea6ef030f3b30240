"""What a trial costs the tuner does not grow with the number of trials before it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
TRIALS = 120
ALIKE = 1.3  # times what it was before
LEAST_LEAK_KB = 100  # a trial; while there are few, all of them are shown to Optuna's sampler: a fifth of it
ONCE = 1.1  # proposals a trial; one that is refused is no trial


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Numbers of a study whose measurements are written down."""
    folder = tmp_path_factory.mktemp("long")
    program = [sys.executable, str(ROOT / "benchmarks" / "long_study.py"), "--trials", str(TRIALS)]
    done = subprocess.run(
        [*program, "--out", str(folder / "found.json")], env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


@pytest.mark.slow
def test_it_takes_as_many_trials_as_it_was_given(study: dict[str, Any]) -> None:
    assert study["trials"] >= TRIALS


@pytest.mark.slow
@pytest.mark.parametrize("cost", ["statements_per_proposal", "database_kb_per_trial"])
def test_the_database_is_asked_and_told_no_more_for_a_late_trial(cost: str, study: dict[str, Any]) -> None:
    early, late = study["quarters"][1], study["quarters"][3]
    assert late[cost] < ALIKE * early[cost]


@pytest.mark.slow
def test_what_the_sampler_repeats_does_not_reach_the_database(study: dict[str, Any]) -> None:
    assert max(quarter["proposals_per_trial"] for quarter in study["quarters"]) < ONCE


@pytest.mark.slow
def test_a_trial_leaves_little_in_memory(study: dict[str, Any]) -> None:
    quarters = study["quarters"]
    grown_kb = 1024 * (quarters[3]["rss_mb"] - quarters[1]["rss_mb"])
    assert grown_kb < LEAST_LEAK_KB * (quarters[2]["trials"] + quarters[3]["trials"])
