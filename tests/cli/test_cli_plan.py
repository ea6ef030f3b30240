"""`advisor plan` from a points file: what it prints, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import assert_told_once, say

POINTS = """ranks,nodes,local_batch,step_ms
1,1,32,100
2,1,32,104
4,1,32,108
8,1,32,115
16,2,32,140
32,4,32,146
"""


@pytest.fixture
def points(tmp_path: Path) -> str:
    path = tmp_path / "points.csv"
    path.write_text(POINTS)
    return str(path)


def test_measured_counts_stay_and_others_get_an_interval(
    points: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = say(capsys, "plan", points, "--ranks", "8,64", "--format", "json")
    eight, many = json.loads(said.out)["predictions"]
    assert eight["measured"] and eight["step_ms"] == {"estimate": 115, "low": 115, "high": 115}
    assert not many["measured"] and (many["ranks"], many["nodes"]) == (64, 8)
    assert many["step_ms"]["low"] < many["step_ms"]["estimate"] < many["step_ms"]["high"]
    assert many["trivial_step_ms"] > 0
    assert many["price"] is None


def test_places_come_from_a_file(points: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = tmp_path / "at.csv"
    at.write_text("placement,local_batch\n8-8-4,32\n8-8-8,64\n")
    rows = json.loads(say(capsys, "plan", points, "--at", str(at), "--format", "json").out)["predictions"]
    assert [(row["ranks"], row["nodes"], row["local_batch"]) for row in rows] == [(20, 3, 32), (24, 3, 64)]
    assert rows[1]["step_ms"]["estimate"] > 1.3 * rows[0]["step_ms"]["estimate"]


def test_the_text_says_what_it_rests_on(points: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "plan", points, "--ranks", "64", "--price", "2.5", "--until", "1e8")
    for words in (
        "predicted, not measured",
        "trivial",
        "measured: steps at 6 counts",
        "public series",
        "price",
    ):
        assert words in said.out


def test_the_first_row_beyond_the_node_says_what_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one_node.csv"
    path.write_text("".join(POINTS.splitlines(keepends=True)[:5]))
    said = say(capsys, "plan", str(path), "--ranks", "16", "--format", "md")
    assert "nothing measured of the network" in said.out


def test_beyond_64_times_only_when_asked(points: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "plan", points, "--ranks", "64,4096")
    assert "4096 ranks: 128 times" in said.out
    said = say(capsys, "plan", points, "--ranks", "4096", "--far", "--format", "json")
    assert json.loads(said.out)["predictions"][0]["far"]


def test_the_global_batch_may_be_kept(points: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "plan", points, "--ranks", "64", "--batch", "keep-global", "--format", "json")
    assert json.loads(said.out)["predictions"][0]["local_batch"] == 16


def test_one_count_alone_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "one.csv"
    path.write_text("ranks,nodes,local_batch,step_ms\n1,1,32,100\n")
    said = say(capsys, "plan", str(path), "--ranks", "8")
    assert "only one count was measured" in said.err and said.code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Missing argument 'POINTS.csv'."),
        (("nowhere.csv",), "nowhere.csv: no such file"),
        (("POINTS", "--price", "2"), "a price needs an end"),
        (("POINTS", "--ranks", "0"), "0"),
        (("POINTS", "--network", "fast"), "fast names no network"),
        (("POINTS", "--at", "x.csv", "--ranks", "8"), "--at names the places already"),
        (("POINTS", "--rank", "8"), "--rank"),
        (("POINTS", "other.csv"), "got an unexpected extra argument"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    points: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    given = [points if word == "POINTS" else word for word in words]
    assert_told_once(say(capsys, "plan", *given), 2, (told,))


def test_neither_torch_nor_scipy_is_loaded(points: str) -> None:
    code = f"import sys; from advisor.cli import main; main(['plan', {points!r}])"
    code += "; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "scipy", "optuna"} & set(done.stderr.split())


def test_the_command_counts_learning_and_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "points.csv"
    path.write_text("ranks,nodes,local_batch,step_ms\n1,1,32,100\n2,1,32,104\n4,1,32,108\n8,1,32,115\n")
    asked = ["plan", str(path), "--ranks", "1,8", "--until", "1e8", "--price", "2"]
    plain = json.loads(say(capsys, *asked, "--format", "json").out)
    more = ["--noise-scale", "100", "--failures", "50700", "--deadline", "1e6", "--spend", "1e9"]
    counted = json.loads(say(capsys, *asked, *more, "--format", "json").out)
    assert counted["predictions"][1]["hours"]["estimate"] > 1.3 * plain["predictions"][1]["hours"]["estimate"]
    assert len(counted["choices"]) == 4
    said = say(capsys, *asked, *more).out
    assert "What to take" in said and "gradient noise scale 100" in said and "GPU-hours" in said
