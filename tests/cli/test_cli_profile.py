"""What ``advisor profile`` takes, prints, writes and refuses, and ``advisor report`` of what it found."""

import gzip
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command_line import assert_told_once, contents, go_to, say
from result_builder import a_profile_result, a_result
from warm import Warm

from advisor.cli.commands.profile import show
from advisor.cli.machine_checks import torch_build
from advisor.profiles.facts.machine import cpus_allowed
from advisor.result.document import ProfileData, schema
from advisor.result.reading import read_document

Case = tuple[tuple[str, ...], int, tuple[str, ...]]

TRAINING = "import torch\nmodel = torch.nn.Linear(1, 1)\nfor _ in range(9):\n    model(1).backward()\n"
MODEL = "from torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n"
TOO_MANY = cpus_allowed() + 100
BOMB = gzip.compress(b"{" + b" " * 40_000_000, compresslevel=1)


def an_event(name: str, ts: float, dur: float, cat: str = "cpu_op", **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def a_trace(steps: int = 3, rank: int | None = None, **info: Any) -> dict[str, Any]:
    """Steps of 10 ms, each a matrix product of 8 ms."""
    shapes: dict[str, Any] = {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]}
    events = []
    for step in range(steps):
        events.append(an_event(f"ProfilerStep#{step}", 10_000.0 * step, 9_990.0, "user_annotation"))
        events.append(an_event("aten::mm", 10_000.0 * step + 1_000.0, 8_000.0, **shapes))
    if rank is not None:
        info["distributedInfo"] = {"backend": "gloo", "rank": rank, "world_size": 2}
    return {**info, "traceEvents": events}


def write_trace(path: Path, **arguments: Any) -> None:
    path.write_text(json.dumps(a_trace(**arguments)))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))
    texts = {
        "train.py": TRAINING, "b.py": TRAINING, "net.py": MODEL, "broken.py": "x = = 1\n", "a.ipynb": "{}",
        "notes.json": "{}", "words.json": "hello", "empty.json": "", "list.json": '{"traceEvents": 7}',
        "other.json": '{"traceEvents": [{"ph": "M", "name": "process_name"}]}',
        "run.sh": "echo", "one.txt": "", "two.txt": "",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "bomb.json.gz").write_bytes(BOMB)
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b'{"traceEvents": [')[:12])
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "keep.txt").write_text("keep")
    write_trace(tmp_path / "trace.json")
    write_trace(tmp_path / "rank0.json", rank=0)
    write_trace(tmp_path / "rank1.json", rank=1)
    write_trace(tmp_path / "again.json", rank=1)
    return tmp_path


CASES: dict[str, Case] = {
    "1 no target": ((), 2, ("Missing argument 'TARGET'.", "`advisor profile train.py`")),
    "1 only arguments": (("--", "x"), 2, ("Missing argument 'TARGET'.",)),
    "2 no such script": (("trian.py",), 2, ("no such file: trian.py", "did you mean train.py?")),
    "2 no such trace": (("trcae.json",), 2, ("no such file: trcae.json", "did you mean trace.json?")),
    "2 traces elsewhere": (("mine/a.json",), 2, ("no such file: mine/a.json",)),
    "2 no folder": (("nodir/a.json",), 2, ("no such file: nodir/a.json",)),
    "2 NUL": (("a\0.json",), 2, ("no such file: a.json",)),
    "4": (("a.ipynb",), 2, ("notebooks are not run from the command line",)),
    "4 not Python": (("run.sh",), 2, ("run.sh is not a Python file",)),
    "6": (("broken.py",), 3, ("broken.py:1: invalid syntax",)),
    "11": (("-x.py",), 2, ("No such option '-x'", "write ./-x.py")),
    "18": (("-m", "pkg.train"), 3, ("No module named 'pkg.train'",)),
    "19": (("train.py", "b.py"), 2,
           ("got an unexpected extra argument (b.py)", "only traces may be several")),
    "19 no traces": (("one.txt", "two.txt"), 2, ("got an unexpected extra argument (two.txt)",)),
    "19 mixed": (("train.py", "trace.json"), 2, ("got an unexpected extra argument (trace.json)",)),
    "19 a module": (("-m", "json", "trace.json"), 2, ("got an unexpected extra argument (trace.json)",)),
    "20": (("https://u:s3cret@x.org/a.py",), 2, ("remote scripts are not run",)),
    "model only": (("net.py",), 2, ("net.py only defines a model, Net", "`advisor init net.py`")),
    "88 not JSON": (("words.json",), 2, ("the file is no JSON", "--> words.json")),
    "88 no events": (("notes.json",), 2, ("the file is no trace", "it has no traceEvents")),
    "88 no list": (("list.json",), 2, ("the file is no trace", "its traceEvents are no list")),
    "88 empty": (("empty.json",), 2, ("the file is empty",)),
    "88 another program's": (("other.json",), 2, ("the trace holds no event of PyTorch",)),
    "88 a folder": (("folder.json",), 2, ("the trace cannot be read", "it is a directory")),
    "88 a bomb": (("bomb.json.gz",), 2, ("bomb.json.gz",)),
    "88 cut": (("cut.json.gz",), 2, ("cut.json.gz",)),
    "one rank twice": (("rank0.json", "rank1.json", "again.json"), 2,
                       ("rank1.json and again.json both hold rank 1", "one file per rank")),
    "one file twice": (("rank0.json", "rank0.json"), 2, ("rank0.json is given twice",)),
    "a trace with arguments": (("trace.json", "--", "--lr", "1"), 2, ("a trace takes no arguments",)),
    "a trace with --fix": (("trace.json", "--fix", "amp=bf16"), 2,
                           ("a trace was recorded already", "--> --fix", "leave --fix out")),
    "a trace with --steps=": (("trace.json", "--steps=5"), 2, ("a trace was recorded already",)),
    "21": (("train.py", "--steps", "0"), 2, ("0 is not in the range x>=1.", "--> --steps")),
    "22": (("train.py", "--warmup", "x"), 2, ("'x' is not a valid integer",)),
    "24": (("train.py", "--budget", "10"), 2, ("no unit in '10'", "`10s`, `10m` or `2h`")),
    "25": (("train.py", "--budget", "0s"), 2, ("the budget must be positive",)),
    "28": (("train.py", "--stpes", "3"), 2, ("No such option '--stpes'.", "did you mean '--steps'")),
    "28 of tune": (("train.py", "--trials", "3"), 2, ("No such option '--trials'.",)),
    "28 of the script": (("train.py", "--epochs", "3"), 2, ("`advisor profile train.py -- --epochs 3`",)),
    "29": (("train.py", "--seed", "1", "--seed", "2"), 2, ("--seed given twice: 1, 2",)),
    "30": (("train.py", "--ranks", str(TOO_MANY)), 2, (f"{TOO_MANY} ranks, but",)),
    "33": (("train.py", "--device", "tpu"), 2, ("'tpu' is not one of auto, cpu, cuda, cuda:N",)),
    "34": (("train.py", "--seed", "-1"), 2, ("the seed must be 0 to 4294967295",)),
    "38": (("train.py", "--format", "xml"), 2,
           ("'xml' is not one of 'text', 'json', 'md', 'html', 'sarif'",)),
    "39": (("train.py", "--out", "b.py"), 2, ("b.py is a file; --out is a directory",)),
    "40": (("train.py", "--out", "mine"), 2, ("mine exists and was not made by advisor", "another --out")),
    "40 of traces": (("trace.json", "--out", "mine"), 2, ("mine exists and was not made by advisor",)),
    "41": (("train.py", "--out", "/nonexistent/x"), 5, ("no such directory: /nonexistent",)),
    "41 empty": (("train.py", "--out", ""), 2, ("--out is empty",)),
    "72": (("train.py", "--fix", "bacth_size=3"), 2,
           ("unknown knob 'bacth_size'", "did you mean batch_size?")),
    "a launcher": (("--exec", "--", "nosuch"), 2, ("nosuch",)),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "texts"), CASES.values(), ids=CASES)
def test_what_cannot_be_meant_is_refused_and_nothing_is_written(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int,
    texts: tuple[str, ...],
) -> None:  # fmt: skip
    before = contents(here)
    said = say(capsys, "profile", *arguments)
    assert_told_once(said, code, texts)
    assert said.out == ""
    assert "s3cret" not in said.err
    assert contents(here) == before
    for part in re.findall(r"`(advisor [^`]*)`", " ".join(said.err.split())):
        own = shlex.split(part)[1:]
        own = own[: own.index("--")] if "--" in own else own
        assert say(capsys, *own, "--help").code == 0, part


def test_everything_that_is_wrong_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "profile", "trian.py", "--steps", "0", "--out", "mine", "--fix", "amp")
    assert said.code == 2
    assert said.err.splitlines() == [
        "error: 4 things have to be corrected",
        "  --steps: 0 is not in the range x>=1.",
        "  --fix: no value in 'amp' (`--fix amp=off`)",
        "  --out: mine exists and was not made by advisor (choose another --out)",
        "  no such file: trian.py (did you mean train.py?)",
    ]


def test_every_trace_that_is_missing_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "profile", "a.json", "trace.json", "b.json.gz")
    assert said.err.splitlines()[0] == "error: 2 things have to be corrected"


def test_under_json_an_error_is_the_only_document_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "profile", "notes.json", "--format", "json")
    assert json.loads(said.out) == {
        "error": {
            "code": "usage", "message": "the file is no trace", "where": "notes.json",
            "cause": "it has no traceEvents", "exit_code": 2,
            "hint": 'export one with profiler.export_chrome_trace("trace.json")',
        }
    }  # fmt: skip


@pytest.mark.skipif(torch_build()[1] is not None, reason="this torch is built for CUDA")
def test_a_cuda_device_needs_a_torch_built_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "profile", "train.py", "--device", "cuda")
    assert_told_once(said, 5, ("no CUDA device: torch", "hint: `--device cpu`", "log: "))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_trace_that_may_not_be_read_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "trace.json").chmod(0)
    assert_told_once(say(capsys, "profile", "trace.json"), 2, ("the trace cannot be read",))


FILES = ("report.html", "result.json", "report.md")


@pytest.mark.parametrize(
    ("words", "plan"),
    [
        (
            ("train.py", "--fix", "num_workers=2", "--budget", "3m", "--", "--lr", "1"),
            {"target": "train.py", "kind": "script", "arguments": ["--lr", "1"], "device": "auto",
             "stages": ["watch", "inspect", "record", "replay", "report"], "budget_s": 180.0,
             "fixed": {"num_workers": 2}, "seed": 0, "out": "advisor-report",
             "starts": "python train.py --lr 1", "writes": [f"advisor-report/{name}" for name in FILES]},
        ),
        (
            ("rank0.json", "rank1.json", "--out", "new"),
            {"target": ["rank0.json", "rank1.json"], "kind": "trace", "out": "new",
             "writes": [f"new/{name}" for name in FILES]},
        ),
    ],
    ids=["script", "traces"],
)  # fmt: skip
def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], plan: dict[str, Any]
) -> None:
    before = contents(here)
    own = words.index("--") if "--" in words else len(words)
    said = say(capsys, "profile", *words[:own], "--dry-run", "--format", "json", *words[own:])
    assert (said.code, json.loads(said.out)) == (0, {"dry_run": plan})
    text = say(capsys, "profile", *words[:own], "--dry-run", *words[own:]).out.splitlines()
    assert [line.partition(":")[0].replace(" ", "_") for line in text[:-1]] == list(plan)
    assert text[-1] == "Nothing was started or written."
    assert contents(here) == before


def test_a_trace_is_read_and_its_report_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "profile", "trace.json", "--format", "json")
    assert said.code == 0, said.err
    document = json.loads(said.out)
    jsonschema.validate(document, schema())
    assert document["target"]["kind"] == "trace"
    assert document["recommendation"] is None
    assert document["profile"]["recording"]["steps"] == 3
    assert document["profile"]["operators"][0]["name"] == "aten::mm"
    assert [f for f in document["findings"] if f["state"] == "error"] == []
    assert sorted(path.name for path in (here / "advisor-report").iterdir()) == [
        "report.html", "report.md", "result.json",
    ]  # fmt: skip
    assert said.err == "Report: advisor-report/report.html\n"
    assert (here / "advisor-report" / "result.json").read_text() == said.out


def test_rules_that_found_nothing_are_counted_and_with_all_listed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = say(capsys, "profile", "trace.json").out
    assert "; `--all` lists them." in said and "Not applicable (" not in said
    listed = say(capsys, "profile", "trace.json", "--all").out
    assert "Not applicable (" in listed and "`--all` lists them" not in listed
    monkeypatch.setenv("ADVISOR_ALL", "1")
    assert say(capsys, "profile", "trace.json").out == said, "a variable is for `advisor tune` alone"


def test_the_traces_of_all_ranks_are_one_profile(capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "profile", "rank1.json", "rank0.json", "--format", "json")
    assert said.code == 0, said.err
    document = json.loads(said.out)
    assert [rank["rank"] for rank in document["profile"]["ranks"]] in ([0, 1], [1, 0])
    assert document["target"]["path"] == "rank1.json, rank0.json"


FIRST = {"text": "One step:", "json": "{", "md": "<!-- advisor -->", "html": "<!DOCTYPE html>", "sarif": "{"}


@pytest.mark.parametrize("format", FIRST)
def test_every_format_goes_to_stdout_and_exits_with_0(
    capsys: pytest.CaptureFixture[str], format: str
) -> None:
    said = say(capsys, "profile", "trace.json", "--format", format)
    assert said.code == 0
    assert FIRST[format] in said.out.splitlines()


def test_an_earlier_report_of_a_search_is_replaced_with_its_patch(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "result.json").write_text(a_result().to_json())
    assert say(capsys, "report", "result.json", "--out", "out").code == 0
    assert (here / "out" / "changes.patch").exists()
    assert say(capsys, "profile", "trace.json", "--out", "out").code == 0
    assert not (here / "out" / "changes.patch").exists()
    assert isinstance(read_document(here / "out"), ProfileData)


@pytest.mark.parametrize(
    "info",
    [
        {"deviceProperties": 7},
        {"deviceProperties": [3, {"name": None, "totalGlobalMem": "much", "computeMajor": [1]}]},
        {"deviceProperties": [{"name": "<script>alert(1)</script>", "totalGlobalMem": 2**36}]},
        {"trace_id": {"nested": [float("inf"), "\udcff"]}, "schemaVersion": float("nan")},
        {"distributedInfo": {"rank": "first"}},
        {"distributedInfo": 3},
    ],
    ids=["no list", "no numbers", "a hostile name", "no number", "no rank", "no object"],
)
def test_whatever_a_trace_says_of_its_machine_is_taken(
    here: Path, capsys: pytest.CaptureFixture[str], info: dict[str, Any]
) -> None:
    write_trace(here / "odd.json", **info)
    said = say(capsys, "profile", "odd.json", "--format", "html")
    assert said.code == 0, said.err
    assert "<script>alert" not in said.out


@pytest.mark.parametrize(
    "name",
    ["mod\udcff.json", "<script>.json", "a'b\".json", "a\nb.json", "[red].json", "\x1b[2J.json",
     "\u202egpj.json"],
)  # fmt: skip
@pytest.mark.parametrize("format", ["text", "json", "md"])
def test_any_name_of_a_trace_is_taken_and_shown_without_control_characters(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, format: str
) -> None:
    write_trace(here / name)
    said = say(capsys, "profile", name, "--format", format)
    assert said.code == 0, said.err
    shown = said.err + ("" if format == "json" else said.out)  # JSON holds the name itself, escaped
    assert not [c for c in shown if c != "\n" and (ord(c) < 32 or ord(c) in (0x202E, 0x9B))]


@pytest.mark.parametrize("format", ["html", "json", "md", "sarif"])
def test_a_profile_is_reported_again(here: Path, capsys: pytest.CaptureFixture[str], format: str) -> None:
    (here / "result.json").write_text(a_profile_result().to_json())
    again = say(capsys, "report", "result.json", "--format", format)
    assert again.code == 0, again.err
    assert show(a_profile_result(), Path("out"), format) == 0  # type: ignore[arg-type]  # one of four
    assert again.out == capsys.readouterr().out


@pytest.mark.parametrize("format", ["html", "json", "md", "sarif"])
def test_the_result_of_a_search_is_still_reported(
    here: Path, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    (here / "result.json").write_text(a_result().to_json())
    said = say(capsys, "report", "result.json", "--format", format)
    assert said.code == 0, said.err
    assert "2.09x" in said.out or format in ("json", "sarif")


def test_a_report_of_a_profile_is_three_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "result.json").write_text(a_profile_result().to_json())
    assert say(capsys, "report", "result.json", "--out", "again").code == 0
    assert sorted(path.name for path in (here / "again").iterdir()) == [
        "report.html", "report.md", "result.json",
    ]  # fmt: skip
    assert read_document(here / "again") == a_profile_result()


FAILING: dict[str, tuple[str, str]] = {
    "raises": ("import torch\nraise ValueError('my own mistake')\n", "my own mistake"),
    "no step": ("import torch\nprint('done')\n", "no training step found"),
    "needs arguments": ("import argparse\nparser = argparse.ArgumentParser()\n"
                        "parser.add_argument('--data', required=True)\nparser.parse_args()\n", "--data"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("source", "told"),
    [
        pytest.param(*case, id=name, marks=[pytest.mark.long] if name != "raises" else [])
        for name, case in FAILING.items()
    ],
)
def test_a_target_that_fails_by_itself_is_told_in_its_own_words_and_no_report_is_left(
    warm: Warm, here: Path, source: str, told: str
) -> None:
    (here / "fails.py").write_text(source)
    before = contents(here)
    done = warm.run("-m", "advisor", "profile", "fails.py", "--budget", "60s", "--format", "json", cwd=here)
    assert done.returncode == 3, done.stderr
    assert told in done.stderr
    assert json.loads(done.stdout)["error"]["exit_code"] == 3
    assert "site-packages" not in done.stderr and "tuners/" not in done.stderr
    assert contents(here) == before
    if told == "my own mistake":
        assert 'File "fails.py", line 2' in done.stderr.replace(str(here) + os.sep, "")
