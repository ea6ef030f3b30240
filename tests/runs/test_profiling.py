"""``advisor profile -m`` on a small real program, from the command to the report."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from advisor.result.document import ProfileData, schema
from advisor.result.reading import read_document
from advisor.rules import RULES

SCRIPT = """\
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Stored(Dataset):
    def __len__(self):
        return 240

    def __getitem__(self, index):
        time.sleep(0.002)
        x = torch.full((64,), index / 240)
        return x, (x.sum() > 32).long()


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(200):
    for x, y in DataLoader(Stored(), batch_size=8, shuffle=True):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    open("made_by_script.txt", "w").write("x")
"""
SLEEP, LOOP = 12, 21  # lines of the script

pytestmark = [pytest.mark.slow, pytest.mark.alone]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the program was profiled."""
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "train.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "profile", "-m", "train", "--budget", "20s", "--format", "json"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (folder / "stdout").write_text(done.stdout)
    (folder / "stderr").write_text(done.stderr)
    return folder


@pytest.fixture(scope="module")
def document(folder: Path) -> dict[str, Any]:
    """What it printed."""
    found: dict[str, Any] = json.loads((folder / "stdout").read_text())
    return found


def test_the_document_is_that_of_the_report_and_fits_the_schema(
    folder: Path, document: dict[str, Any]
) -> None:
    jsonschema.validate(document, schema())
    assert (folder / "advisor-report" / "result.json").read_text() == (folder / "stdout").read_text()
    assert isinstance(read_document(folder / "advisor-report"), ProfileData)
    assert {path.name for path in (folder / "advisor-report").iterdir()} == {
        "report.html", "report.md", "result.json",
    }  # fmt: skip


def test_progress_says_first_what_is_about_to_happen_and_last_where_the_report_is(folder: Path) -> None:
    lines = (folder / "stderr").read_text().splitlines()
    assert lines[0].startswith("train, module, ")
    assert lines[-1] == "Report: advisor-report/report.html"


def test_the_step_is_told_by_part_and_its_parts_make_up_the_whole(document: dict[str, Any]) -> None:
    phases = document["profile"]["phases_ms"]
    assert document["profile"]["steps"] >= 30
    assert phases["input_wait"] > 0.5 * sum(phases.values())
    assert all(phases[part] > 0 for part in ("forward", "backward", "optimizer"))
    step_ms = document["baseline"]["step_ms"]
    assert step_ms["low"] <= step_ms["estimate"] <= step_ms["high"]
    assert sum(phases.values()) == pytest.approx(step_ms["estimate"], rel=0.5)


def test_every_rule_spoke_and_none_failed(document: dict[str, Any]) -> None:
    assert sorted(finding["rule"] for finding in document["findings"]) == sorted(RULES)
    assert [finding for finding in document["findings"] if finding["state"] == "error"] == []


def test_the_fault_is_found_at_its_line_before_its_symptom(document: dict[str, Any]) -> None:
    fired = [f for f in document["findings"] if f["state"] in ("opportunity", "diagnostic")]
    names = [finding["rule"] for finding in fired]
    cause, symptom = (fired[names.index(name)] for name in ("slow_item", "input_bound"))
    assert names.index("slow_item") < names.index("input_bound")
    assert cause["explains"] == "input_bound"
    assert (cause["location"]["file"], cause["location"]["line"]) == ("train.py", SLEEP)
    assert (symptom["location"]["file"], symptom["location"]["line"]) == ("train.py", LOOP)
    assert symptom["ceiling"]["share"] > 0.5
    assert "num_workers" in symptom["knobs"]
    assert document["profile"]["summary"] == cause["title"]


def test_the_window_holds_the_operators_of_every_part(document: dict[str, Any]) -> None:
    profile = document["profile"]
    assert profile["recording"]["steps"] >= 1
    assert profile["recording"]["events_per_step"] > 20
    assert {"forward", "backward", "optimizer"} <= {op["phase"] for op in profile["operators"]}
    assert any(op["name"] in ("aten::addmm", "aten::mm", "aten::linear") for op in profile["operators"])


def test_the_replay_without_the_loader_bounds_what_data_could_give(document: dict[str, Any]) -> None:
    share = document["profile"]["replays"]["loader_free"]
    assert 0.5 < share["low"] <= share["estimate"] <= share["high"] <= 1
    assert document["profile"]["replays_refused"]["communication_off"]


def test_the_machine_and_the_target_are_told(document: dict[str, Any]) -> None:
    assert document["target"]["path"] == "train"
    assert document["machine"]["cpus_allowed"] >= 1
    assert document["profile"]["rates"]["matmul_float32_flops"] > 0
    assert document["budget"]["trials"] == 0


def test_no_path_of_this_machine_stands_in_a_finding(folder: Path, document: dict[str, Any]) -> None:
    assert str(folder) not in json.dumps([document["findings"], document["profile"]])


def test_what_the_script_wrote_is_kept_apart_or_warned_about(folder: Path, document: dict[str, Any]) -> None:
    written = (folder / "made_by_script.txt").exists()
    assert not written or any("not kept apart" in text for text in document["warnings"])
