"""``advisor worker`` as it is typed: a tuner and a worker on one server, with a tiny real program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from postgresql import a_database
from test_tuning import WORKLOAD

KNOBS = ("--knob", "placebo", "--knob", "optimizer_implementation")
TIMEOUT_S = 400


def advisor(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "advisor", *arguments], cwd=folder, text=True, capture_output=True,
        timeout=TIMEOUT_S, env={**os.environ, "OMP_NUM_THREADS": "1", "ADVISOR_LOCKS": str(folder)},
    )  # fmt: skip


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """The folders of two machines, with copies of one program."""
    folders = (tmp_path / "first", tmp_path / "second")
    for folder in folders:
        folder.mkdir()
        (folder / "work.py").write_text(WORKLOAD.replace("WORKERS", "0"))
    return folders


@pytest.mark.slow
def test_a_worker_joins_the_study_of_a_tuner_and_the_report_shows_its_group(
    server: str, places: tuple[Path, Path]
) -> None:
    first, second = places
    url = a_database(server, "joined")
    shared = ("--storage", url, "--study", "small", *KNOBS)
    tuned = advisor(first, "tune", "work.py", *shared, "--trials", "2", "--budget", "60s")
    assert tuned.returncode == 0, tuned.stderr
    (second / "work.py").rename(second / "renamed.py")
    (second / "other.py").write_text("import torch\n")
    strange = advisor(second, "worker", *shared)
    assert strange.returncode == 2 and "no file here is the target of study 'small'" in strange.stderr
    (second / "renamed.py").rename(second / "work.py")
    worked = advisor(second, "worker", *shared, "--trials", "1", "--budget", "90s", "--format", "json")
    assert worked.returncode == 0, worked.stderr
    report = json.loads(worked.stdout)
    assert report["study"] == "small" and report["trials"] <= 1 and report["refused"] == 0
    shown = json.loads(advisor(second, "report", "small", "--storage", url, "--format", "json").stdout)
    assert shown["command"][0] == "tune"
    (group,) = shown["groups"]
    assert group["fingerprint"] == shown["machine"]["fingerprint"] == report["fingerprint"]
    assert group["trials"] >= 1 + report["trials"] and group["baseline"]["step_ms"]["estimate"] > 0
    page = advisor(second, "report", "small", "--storage", url, "--format", "md").stdout
    assert "Groups of workers" in page
    html = advisor(second, "report", "small", "--storage", url).stdout
    assert '<h2 id="groups">Groups of workers</h2>' in html


def test_a_worker_with_other_arguments_or_settings_is_told_all_differences_before_anything_runs(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('was run')\n")
    script = """
import sys
from pathlib import Path
from scripted_worker import ScriptedBench, a_worker
a_worker("sqlite:///studies.db", "train", Path("train.py"), ScriptedBench(), trials=1).run()
"""
    made = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, text=True, capture_output=True, timeout=TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    told = advisor(
        tmp_path, "worker", "--storage", "sqlite:///studies.db", "--study", "train", "--seed", "3",
        "--fix", "placebo=on", "--", "--fast",
    )  # fmt: skip
    assert told.returncode == 2 and "was run" not in told.stderr
    assert "3 differences" in told.stderr
    for part in ("args", "--fast", "fix placebo", "seed"):
        assert part in told.stderr


def test_a_worker_needs_the_name_of_a_study_or_a_target(tmp_path: Path) -> None:
    told = advisor(tmp_path, "worker", "--storage", "sqlite:///studies.db")
    assert told.returncode == 2 and "Missing option '--study'." in told.stderr
