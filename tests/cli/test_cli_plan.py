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
        (("POINTS", "--until", "90epochs"), "a column epoch_samples"),
        (("POINTS", "--until", "90 days"), "no number of samples or epochs"),
        (("POINTS", "--until", "1.2.3"), "no number of samples or epochs"),
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


def test_goodput_chooses_the_batch_and_needs_a_noise_scale(
    points: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["plan", points, "--ranks", "64", "--batch", "goodput"]
    little = json.loads(say(capsys, *asked, "--noise-scale", "64", "--format", "json").out)
    large = json.loads(say(capsys, *asked, "--noise-scale", "1e7", "--format", "json").out)
    assert little["predictions"][0]["local_batch"] < large["predictions"][0]["local_batch"] == 32
    assert_told_once(say(capsys, *asked), 2, ("nothing is known of the gradient noise scale",))


def test_a_network_has_a_name_or_a_file(
    points: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "network.csv"
    file.write_text("bytes,busbw_GBps\n1e8,25\n")
    told = [
        say(capsys, "plan", points, "--network", name, "--format", "md").out for name in ("ib", str(file))
    ]
    assert all("network of a node: 25 GB/s" in each for each in told)


def test_what_is_not_read_and_what_is_doubtful_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "points.csv"
    path.write_text("ranks,nodes,local_batch,step_ms,gpu\n8,1,32,100,A100\n8,1,32,60,H100\n16,2,32,90,A100\n")
    said = say(capsys, "plan", str(path), "--ranks", "32")
    assert "not read: gpu" in said.err
    assert "look again: 8 on 1" in said.out
    (told,) = json.loads(say(capsys, "plan", str(path), "--format", "json").out)["doubts"]
    assert "60 to 100 ms" in told


@pytest.mark.parametrize("until", ["90epochs", "90 epochs", "9e1epochs", "5400000", "5.4e6samples"])
def test_the_end_may_be_counted_in_epochs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], until: str
) -> None:
    path = tmp_path / "points.csv"
    path.write_text("ranks,nodes,local_batch,step_ms,epoch_samples\n1,1,32,100,60000\n2,1,32,104,\n")
    said = say(
        capsys, "plan", str(path), "--ranks", "2", "--until", until, "--price", "2", "--format", "json"
    )
    row = json.loads(said.out)["predictions"][0]
    assert row["hours"]["estimate"] == pytest.approx(90 * 60000 / 64 * 0.104 / 3600)


@pytest.mark.parametrize(
    ("measured", "asked"),
    [
        ((1, 2), [1, 2, 4, 8, 16, 32, 64]),
        ((24,), [24, 32, 48, 64, 96, 192]),
        ((256,), [256, 512, 1024, 2048]),
    ],
)
def test_more_ranks_are_asked_for_where_none_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], measured: tuple[int, ...], asked: list[int]
) -> None:
    path = tmp_path / "points.csv"
    rows = "".join(f"{ranks},{max(1, ranks // 8)},32,100\n" for ranks in measured)
    path.write_text("ranks,nodes,local_batch,step_ms\n" + rows)
    document = json.loads(say(capsys, "plan", str(path), "--format", "json").out)
    assert [row["ranks"] for row in document["predictions"]] == asked
