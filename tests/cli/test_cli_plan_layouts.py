"""`advisor plan` from a file of layouts."""

import json
from pathlib import Path

import pytest
from command_line import assert_told_once, say

LAYOUTS = (
    "ranks,nodes,global_batch,tensor_parallel,pipeline_stages,micro_batch,layers,hidden,sequence,step_ms\n"
    "4,1,16,1,1,4,24,2048,1024,474.7\n4,1,16,2,1,4,24,2048,1024,560\n"
)
ASKED = (
    "ranks,nodes,global_batch,tensor_parallel,pipeline_stages,micro_batch,layers,hidden,sequence\n"
    "8,1,16,2,1,4,24,2048,1024\n"
)


@pytest.fixture
def layouts(tmp_path: Path) -> str:
    path = tmp_path / "layouts.csv"
    path.write_text(LAYOUTS)
    return str(path)


def test_it_tells_which_would_be_fastest(layouts: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "plan", layouts, "--ranks", "8").out
    assert "8 ranks: " in said and "tp1 pp1 dp8 mb4" in said
    document = json.loads(say(capsys, "plan", layouts, "--format", "json").out)
    assert document["schema_version"] == 1
    assert any(row["measured"] and row["step_ms"]["estimate"] == 474.7 for row in document["layouts"])


def test_layouts_that_are_named_are_predicted(
    layouts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = tmp_path / "at.csv"
    at.write_text(ASKED)
    said = say(capsys, "plan", layouts, "--at", str(at), "--format", "md").out
    assert "| 8 | tp2 pp1 dp4 mb4 |" in said


def test_options_that_layouts_do_not_have_are_refused(
    layouts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("--network", "100Gb"), ("--format", "html", "--out", "page")):
        told = f"{words[-2]} is not for a file of layouts"
        assert_told_once(say(capsys, "plan", layouts, *words), 2, (told,))
