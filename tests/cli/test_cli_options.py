"""What options take, and what is read when they do not."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from command_line import HEAVY, assert_told_once, contents, say
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.cli import main
from advisor.cli.machine_checks import torch_build, visible_gpus
from advisor.profiles.machine import cpus_allowed

Case = tuple[tuple[str, ...], int, tuple[str, ...]]

TOO_MANY = cpus_allowed() + 100

CASES: dict[str, Case] = {
    "21": (("--trials", "0"), 2, ("0 is not in the range x>=1.", "--> --trials")),
    "22": (("--trials", "abc"), 2, ("'abc' is not a valid integer",)),
    "22 another digit": (("--trials", "\u0663"), 2, ("is not a valid integer",)),
    "23": (("--trials", "1000000000"), 2, ("100000 is the limit", "`--budget 10m`")),
    "24": (("--budget", "10"), 2, ("no unit in '10'", "`10s`, `10m` or `2h`")),
    "24 parsecs": (("--budget", "10 parsecs"), 2, ("'parsecs' in '10 parsecs' is not a unit",)),
    "24 nothing": (("--budget", ""), 2, ("'' is not a span of time",)),
    "25 negative": (("--budget", "-5m"), 2, ("the budget must be positive",)),
    "25 zero": (("--budget", "0s"), 2, ("the budget must be positive",)),
    "25 very long": (("--budget", "9" * 30 + "h"), 2, ("is more than 30 days",)),
    "27": (("--objective", "thruput"), 2,
           ("'thruput' is not one of 'goodput', 'throughput'", "did you mean throughput?")),
    "27 later": (("--objective", "energy"), 2, ("'energy' is not available yet",)),
    "28": (("--trails", "3"), 2, ("No such option '--trails'.", "did you mean '--trials'")),
    "28 no value": (("--trials",), 2, ("Option '--trials' requires an argument.",)),
    "29": (("--objective", "throughput", "--objective", "memory"), 2,
           ("--objective given twice: throughput, memory",)),
    "29 fix": (("--fix", "num_workers=0", "--fix", "num_workers=2"), 2,
               ("--fix num_workers given twice: 0, 2",)),
    "30 ranks": (("--ranks", str(TOO_MANY)), 2, (f"{TOO_MANY} ranks, but",)),
    "30 later": (("--ranks", "1,x"), 2, ("'x' is not a valid integer",)),
    "33": (("--device", "tpu"), 2, ("'tpu' is not one of auto, cpu, cuda, cuda:N",)),
    "34": (("--seed", "1.5"), 2, ("the seed must be 0 to 4294967295",)),
    "34 too large": (("--seed", str(2**70)), 2, ("the seed must be 0 to 4294967295",)),
    "36 too large": (("--min-gain", "150%"), 2, ("--min-gain lies between 0% and 100%",)),
    "36 negative": (("--min-gain", "-3"), 2, ("--min-gain lies between 0% and 100%",)),
    "36 no unit": (("--min-gain", "2"), 2, ("no unit in '2'", "`2%` or `0.02`")),
    "37": (("--confidence", "95"), 2, ("--confidence must lie between 0.5 and 1", "`0.95`")),
    "38": (("--format", "xml"), 2, ("'xml' is not one of 'text', 'json', 'md'",)),
    "39": (("--out", "train.py"), 2, ("train.py is a file; --out is a directory",)),
    "40": (("--out", "notes"), 2, ("notes exists and was not made by advisor", "another --out")),
    "41": (("--out", "/nonexistent/x"), 5, ("no such directory: /nonexistent",)),
    "41 empty": (("--out", ""), 2, ("--out is empty",)),
    "46 no storage": (("--resume", "--study", "fooo"), 2, ("no such file: .advisor/studies.db",)),
    "48 empty": (("--study", ""), 2, ("use letters, digits, . _ - (at most 200)",)),
    "48 long": (("--study", "x" * 201), 2, ("use letters, digits, . _ - (at most 200)",)),
    "48 NUL": (("--study", "a\0b"), 2, ("use letters, digits",)),
    "48 slash": (("--study", "a/b"), 2, ("study name 'a/b'",)),
    "48 dots": (("--study", ".."), 2, ("study name '..'",)),
    "48 surrogate": (("--study", "a\udcff"), 2, ("study name 'a\\xff'",)),
    "49 quotes": (("--study", "'; DROP TABLE studies; --"), 2, ("use letters, digits",)),
    "49 override": (("--study", "a\u202eb"), 2, ("study name 'ab'",)),
    "72": (("--knob", "bacth_size"), 2,
           ("unknown knob 'bacth_size'", "did you mean batch_size?", "`advisor knobs`")),
    "72 a value": (("--knob", "amp=bf61"), 2, ("amp: 'bf61' is not one of 'off', 'bf16', 'fp16'",)),
    "72 no value": (("--knob", "amp="), 2, ("amp: a value is empty",)),
    "72 fix": (("--fix", "amp"), 2, ("no value in 'amp'", "`--fix amp=off`")),
    "72 twice": (("--knob", "num_workers=2,2"), 2, ("num_workers: 2 is given twice",)),
    "72 strategy": (("--knob", "strategy=ddq"), 2, ("strategy: 'ddq' is not one of", "'ddp'")),
    "74": (("--fix", "num_workers=0", "--knob", "num_workers=2,4"), 2,
           ("--fix num_workers=0 and --knob num_workers=2,4",)),
    "bytes": (("--max-memory", "lots"), 2, ("'lots' is not a number of bytes", "`8GiB`")),
    "allow": (("--allow", "all"), 2, ("'all' is not one of 'training'",)),
    "steps": (("--steps", "0"), 2, ("0 is not in the range x>=1.",)),
}  # fmt: skip

STORAGE: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "53": ("", 2, ("storage is empty", "leave it out for the default file")),
    "54": ("foo", 2, ("'foo' is not a storage URL", "`sqlite:///path.db` or `postgresql://USER@HOST/DB`")),
    "55": ("foosql://x/y", 2, ("'foosql' is not supported", "sqlite, postgresql")),
    "56": ("mysql://u:s3cret@h/d", 2, ("'mysql' is not supported",)),
    "56 redis": ("redis://:s3cret@h", 2, ("'redis' is not supported",)),
    "57": ("sqlite:///nodir/x.db", 2, ("no such directory: nodir",)),
    "58": ("sqlite:///notes/", 2, ("notes/ is a directory",)),
    "63": ("sqlite:///x.db?plugin=x", 2, ("parameter 'plugin' is not allowed",)),
}  # fmt: skip


def lay_out(folder: Path) -> None:
    """A script, and a folder that is not ours."""
    (folder / "train.py").write_text("import torch\nfor _ in range(3):\n    torch.ones(1).backward()\n")
    (folder / "notes").mkdir()
    (folder / "notes" / "mine.txt").write_text("keep")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ADVISOR_") or name == "WORLD_SIZE"]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("logs")))
    lay_out(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("arguments", "code", "texts"), CASES.values(), ids=CASES)
def test_an_option_that_cannot_be_meant_is_refused_and_nothing_is_written(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    texts: tuple[str, ...],
) -> None:
    before = contents(here)
    said = say(capsys, "tune", "train.py", *arguments)
    assert_told_once(said, code, texts)
    assert said.out == ""
    assert contents(here) == before


@pytest.mark.parametrize(("url", "code", "texts"), STORAGE.values(), ids=STORAGE)
@pytest.mark.parametrize(
    "command", [("tune", "train.py"), ("studies",), ("report", "train")], ids=lambda words: words[0]
)
def test_a_storage_that_cannot_be_meant_is_refused_by_every_command(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    url: str,
    code: int,
    texts: tuple[str, ...],
) -> None:
    before = contents(here)
    said = say(capsys, *command, "--storage", url, *(["--format", "json"] if command[0] == "report" else []))
    assert_told_once(said, code, texts)
    assert "s3cret" not in said.err + said.out
    assert contents(here) == before


def test_everything_that_is_wrong_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "tune", "trian.py", "--trials", "0", "--out", "notes", "--storage", "foo")
    assert said.code == 2
    assert said.err.splitlines() == [
        "error: 4 things have to be corrected",
        "  --trials: 0 is not in the range x>=1.",
        "  no such file: trian.py (did you mean train.py?)",
        "  --storage: 'foo' is not a storage URL (`sqlite:///path.db` or `postgresql://USER@HOST/DB`)",
        "  --out: notes exists and was not made by advisor (choose another --out)",
    ]


@pytest.mark.parametrize("where", ["first", "last"])
def test_under_json_an_error_is_the_only_document_on_stdout(
    capsys: pytest.CaptureFixture[str], where: str
) -> None:
    words = ["--format", "json", "--zzzz"] if where == "first" else ["--zzzz", "--format=json"]
    said = say(capsys, "tune", *words)
    assert json.loads(said.out) == {
        "error": {
            "code": "usage", "message": "No such option '--zzzz'.", "where": None, "cause": None,
            "hint": None, "exit_code": 2,
        }
    }  # fmt: skip


def test_knobs_may_be_repeated_and_their_values_are_merged(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--knob",
        "num_workers=1,2",
        "--knob",
        "num_workers=2,4",
        "--knob",
        "amp",
        "--fix",
        "num_threads=1",
    ]
    said = say(capsys, "tune", "train.py", *words, "--dry-run", "--format", "json")
    plan = json.loads(said.out)["dry_run"]
    assert plan["knobs"] == {"num_workers": "1, 2, 4", "amp": "all choices"}
    assert plan["fixed"] == {"num_threads": 1}


def test_the_same_value_given_twice_is_no_contradiction(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(
        capsys, "tune", "train.py", "--budget", "2m", "--budget", "120s", "--dry-run", "--format", "json"
    )
    assert json.loads(said.out)["dry_run"]["budget_s"] == 120.0


def test_debug_adds_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "tune", "trian.py", "--debug")
    assert "Traceback (most recent call last)" in said.err
    assert said.blocks == 1


def test_colour_is_used_only_where_it_is_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1;31merror:" in say(capsys, "tune").err
    assert "\x1b" not in say(capsys, "tune", "--no-color").err
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in say(capsys, "tune").err


@pytest.mark.skipif(torch_build()[1] is not None, reason="this torch is built for CUDA")
def test_a_cuda_device_needs_a_torch_built_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "tune", "train.py", "--device", "cuda")
    version = torch_build()[0]
    assert_told_once(
        said, 5, (f"no CUDA device: torch {version} is built for CPU", "hint: `--device cpu`", "log: ")
    )


@pytest.mark.parametrize(
    ("variable", "count"),
    [
        (None, 2),
        ("", 0),
        ("0", 1),
        ("1,0", 2),
        ("-1", 0),
        ("0,-1,1", 1),
        ("0,7", 1),
        ("GPU-1a", 1),
        ("MIG-1,MIG-2", 2),
    ],
)
def test_devices_are_hidden_as_cuda_hides_them(variable: str | None, count: int) -> None:
    assert visible_gpus(2, variable) == count


@pytest.mark.parametrize("command", ["worker", "plan", "trace"])
def test_a_command_that_comes_later_says_so(capsys: pytest.CaptureFixture[str], command: str) -> None:
    said = say(capsys, command, "x", "--whatever")
    assert_told_once(said, 2, (f"`advisor {command}` is not available yet",))


def test_a_misspelt_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert_told_once(say(capsys, "tuen"), 2, ("No such command 'tuen'.", "did you mean 'tune'?"))


RUN_ALL = """
import json, sys, time
from advisor.cli import main
slowest = 0.0
for arguments, code in json.load(sys.stdin):
    began = time.perf_counter()
    got = main(arguments)
    slowest = max(slowest, time.perf_counter() - began)
    assert got == code, (arguments, got)
loaded = [name for name in ("torch", "optuna", "scipy") if name in sys.modules]
print(json.dumps([slowest, loaded]))
"""


def test_usage_errors_come_fast_and_load_nothing_heavy(here: Path) -> None:
    calls: list[tuple[list[str], int]] = [
        (["tune", "train.py", *words], code)
        for words, code, _ in CASES.values()
        if not any("\0" in w for w in words)
    ]
    calls += [(["tune", "train.py", "--storage", str(url)], code) for url, code, _ in STORAGE.values()]
    calls += [(["tune", "train.py", "--dry-run"], 0), (["--help"], 0), (["knobs"], 0), (["studies"], 0)]
    calls += [
        (["profile", "train.py", *words], 2) for words in (["--steps", "0"], ["b.py"], ["--trials", "3"])
    ]
    calls += [(["profile", "nosuch.json"], 2), (["profile", "train.py", "--dry-run"], 0), (["profile"], 2)]
    calls += [(["rules"], 0), (["rules", "input_bound"], 0), (["rules", "x"], 2), (["doctor", "x"], 2)]
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        input=json.dumps(calls),
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    slowest, loaded = json.loads(done.stdout.splitlines()[-1])
    assert loaded == []
    assert slowest < 1.0


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], ["tune"], ["tune", "--help"], ["knobs", "amp"], ["studies"], ["rules"],
     ["rules", "input_bound"], ["profile", "--help"], ["profile", "trian.py"], ["doctor", "--help"]],
    ids=" ".join,
)  # fmt: skip
def test_a_process_that_only_answers_imports_nothing_heavy(here: Path, words: list[str]) -> None:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "advisor", *words],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.perf_counter() - began
    imported = {
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }
    assert "advisor.cli" in imported
    assert not imported & set(HEAVY)
    assert took < 3.0


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash for pipefail")
def test_a_closed_pipe_ends_quietly(here: Path) -> None:
    command = f"{sys.executable} -m advisor knobs --format json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=here, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    option=st.sampled_from(
        ["--budget", "--trials", "--objective", "--device", "--seed", "--min-gain", "--confidence", "--study",
         "--knob", "--fix", "--ranks", "--max-memory", "--storage", "--format", "--out", "-m"]
    ),
    value=st.text(max_size=30),
)  # fmt: skip
def test_any_text_after_any_option_is_answered(option: str, value: str) -> None:
    assert main(["tune", "train.py", "--dry-run", option, value]) in (0, 2, 3, 5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60))
def test_any_bytes_in_a_script_are_answered(content: bytes) -> None:
    Path("any.py").write_bytes(content)
    assert main(["tune", "any.py", "--dry-run"]) in (0, 2, 3)
