"""Wrong options: rows 21 to 52 of the table of bad inputs."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from applied_builder import PROGRAM, a_change, a_result_for
from bad_inputs import TRAINING, Row, assert_quick, assert_refused, lay_out, tune
from builders import a_machine
from command_line import go_to, say
from result_builder import MACHINE, a_profile_result, a_result
from warm import Warm

from advisor.base.errors import AdvisorError
from advisor.cli import machine_checks
from advisor.cli.machine_checks import check_device, torch_build
from advisor.profiles.facts.machine import Gpu, Machine, cpus_allowed, read_machine
from advisor.result.document import Trial
from advisor.storage.contract import digests_of_target, study_contract
from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store

TOO_MANY = cpus_allowed() + 100

TYPED: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    "21": (("--trials", "0"), 2, ("0 is not in the range x>=1.", "--> --trials")),
    "22": (("--trials", "abc"), 2, ("'abc' is not a valid integer",)),
    "23": (("--trials", "1000000000"), 2, ("2000 is the limit", "`--budget 10m`")),
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
    "limit": (("--latency-limit", "20"), 2, ("'20' is not a time of a request", "`20ms` or `0.5s`")),
    "limit of steps": (("--latency-limit", "20ms"), 2,
                       ("the objective is goodput", "`--objective requests`")),
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
    "bytes": (("--max-memory", "lots"), 2, ("'lots' is not a number of bytes", "`8GiB`")),
    "allow": (("--allow", "all"), 2, ("'all' is not 'training'.",)),
    "steps": (("--steps", "0"), 2, ("0 is not in the range x>=1.",)),
}  # fmt: skip
NOTES: dict[str, str | bytes] = {"notes/mine.txt": "keep", "b.py": TRAINING}
ROWS = {name: Row(tune(*words), code, told, files=NOTES) for name, (words, code, told) in TYPED.items()}


def results(folder: Path) -> None:
    """Results to apply, to compare and to check against, and a study that has measured nothing."""
    for name in ("edited.py", "inside.py"):
        (folder / name).write_text(PROGRAM)
    workers = a_change("num_workers", 0, 2)
    found = {
        "result.json": a_result(),
        "copy.json": a_result(),
        "profile.json": a_profile_result(),
        "a100.json": a_result(machine=MACHINE | {"gpus": [{"name": "A100"}], "fingerprint": "A100"}),
        "h100.json": a_result(machine=MACHINE | {"gpus": [{"name": "H100"}], "fingerprint": "H100"}),
        "edited.json": a_result_for(folder / "edited.py", workers),
        "outside.json": a_result_for(folder / "inside.py", workers, target={"path": "../x.py"}),
        "link.json": a_result_for(folder / "inside.py", workers, target={"path": "out.py"}),
    }
    for name, result in found.items():
        (folder / name).write_text(result.to_json())
    (folder / "edited.py").write_text(PROGRAM + "\n")
    (folder / "out.py").symlink_to("/etc/hostname")
    with Store.open(
        parse_storage(f"sqlite:///{folder}/.advisor/studies.db"), create=True, warn=lambda text: None
    ) as store:
        for name in ("train", "begun"):
            store.create_study(name, a_contract(folder, read_machine()))
        failed = Trial(number=0, config={}, stage="baseline", state="failed", cause="oom_device")
        store.record("begun", failed, asked=None, value=None)


def a_contract(folder: Path, machine: Machine, **changes: object) -> dict[str, object]:
    """What the study of ``train.py`` in this folder is about."""
    terms: dict[str, object] = {
        "objective": "goodput", "direction": "maximize", "space": {}, "target": "train.py",
        "files": digests_of_target(folder / "train.py"), "machine": machine, "advisor_version": "0.1.0",
    }  # fmt: skip
    return study_contract(**{**terms, **changes})  # type: ignore[arg-type]


def measured(words: tuple[str, ...], code: int, *told: str, quick: bool = True) -> Row:
    """A row about results and studies that lie in the folder."""
    return Row(words, code, told, files=NOTES | {"notes.json": "{}"}, lay=results, quick=quick)


ROWS |= {
    "35 missing": measured(("check", "train.py"), 2, "Missing option '--against'.", "hint: `advisor check"),
    "35 absent": measured(("check", "train.py", "--against", "nosuch.json"), 2, "nosuch.json: no such file"),
    "35 not a result": measured(
        ("check", "train.py", "--against", "notes.json"),
        2,
        "notes.json is not a result of advisor (no schema_version)",
        "hint: `advisor tune TARGET` writes one",
    ),
    "36 check": measured(
        ("check", "train.py", "--against", "result.json", "--min-gain", "2"), 2, "no unit in '2'"
    ),
    "38 report": measured(
        ("report", "result.json", "--format", "xml"), 2, "'xml' is not one of 'html', 'json', 'md', 'sarif'"
    ),
    "40 report": measured(
        ("report", "result.json", "--out", "notes"),
        2,
        "notes exists and was not made by advisor",
        "another --out",
    ),
    "44": measured(
        ("apply", "edited.json", "--write"),
        2,
        "edited.py changed since the study (sha256:",
        "nothing written",
        "git apply --3way",
    ),
    "45": measured(
        ("apply", "outside.json", "--write"), 2, "../x.py lies outside the project: nothing written"
    ),
    "45 a link": measured(
        ("apply", "link.json", "--write"), 2, "out.py lies outside the project: nothing written"
    ),
    "46": measured(
        tune("--resume", "--study", "fooo"), 2, "no study 'fooo'", "nearest: ", "train", "`advisor studies`"
    ),
    "46 report": measured(
        ("report", "trian", "--format", "md"), 2, "no study 'trian'", "nearest: train, begun;"
    ),
    "47": measured(
        tune(
            "--resume", "--study", "train", "--objective", "memory", "--seed", "7", "--fix", "num_threads=1"
        ),
        2,
        "study 'train' cannot be resumed: 3 things changed",
        "what             stored   now",
        "objective        goodput  memory",
        "seed             0        7",
        "fix num_threads  absent   1",
        "hint: start another one: `--study NAME`",
    ),
    "47 another target": measured(
        ("tune", "b.py", "--resume", "--study", "train"),
        2,
        "cannot be resumed: 3 things changed",
        "target ",
        "train.py  ",
        "b.py\n",
    ),
    "50": measured(
        ("report", "begun", "--format", "md"), 4, "nothing measured yet (baseline failed: oom_device)"
    ),
    "51": measured(
        ("compare", "result.json", "result.json"), 2, "the same result twice: result.json and result.json"
    ),
    "51 a copy": measured(("compare", "result.json", "copy.json"), 2, "the same result twice"),
    "51 another machine": measured(("compare", "a100.json", "h100.json"), 2, "not comparable: A100 and H100"),
    "52 check": measured(("check", "train.py", "--format", "md"), 2, "Missing option '--against'."),
    "52 apply": measured(("apply",), 2, "Missing argument 'RESULT'.", "`advisor apply advisor-report`"),
    "52 compare": measured(("compare", "result.json"), 2, "Missing argument 'B'."),
    "52 nothing": Row((), 2, ("Missing command.", "`advisor tune train.py`, or `advisor --help`")),
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    return go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_an_option_that_cannot_be_meant_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, row: Row
) -> None:
    assert_refused(row, here, capsys, monkeypatch)


def test_refusing_an_option_is_quick(here: Path) -> None:
    assert_quick(ROWS, here)


GPUS = a_machine(gpus=tuple(Gpu(name, f"GPU-{name}", 2**34, (9, 0)) for name in "AB"))


@pytest.mark.parametrize(
    ("device", "cuda", "visible", "machine", "code", "told"),
    [
        ("cuda:9", "12.8", None, GPUS, 2, "no cuda:9, present: cuda:0, cuda:1"),
        ("cuda", None, None, GPUS, 5, "no CUDA device: torch 2.13.0 is built for CPU"),
        ("cuda", "12.8", "", GPUS, 5, "no CUDA device: CUDA_VISIBLE_DEVICES shows none"),
        ("cuda:1", "12.8", "MIG-1", GPUS, 2, "no cuda:1, present: cuda:0"),
        ("cuda", "12.8", None, a_machine(), 5, "no CUDA device: the driver shows none"),
    ],
    ids=["30", "31", "32 empty", "32 MIG", "31 no driver"],
)  # fmt: skip
def test_a_device_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, device: str, cuda: str | None, visible: str | None, machine: Machine,
    code: int, told: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(machine_checks, "torch_build", lambda: ("2.13.0", cuda))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(AdvisorError) as refused:
        check_device(device, machine)
    assert (refused.value.message, refused.value.exit_code) == (told, code)
    assert refused.value.where == "--device" and refused.value.hint is not None


@pytest.mark.skipif(torch_build()[1] is not None, reason="this torch is built for CUDA")
@pytest.mark.parametrize("command", ["tune", "profile"])
def test_31_a_cuda_device_needs_a_torch_built_for_it(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    Path("train.py").write_text(TRAINING)
    said = say(capsys, command, "train.py", "--device", "cuda")
    assert said.code == 5
    assert said.err.startswith(f"error: no CUDA device: torch {torch_build()[0]} is built for CPU\n")
    assert "hint: `--device cpu`" in said.err and "log: " in said.err


def test_42_html_is_not_written_to_a_terminal(here: Path) -> None:
    (here / "result.json").write_text(a_result().to_json())
    controller, terminal = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "report", "result.json"], cwd=here, stdout=terminal,
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(terminal)
    os.close(controller)
    assert done.returncode == 2
    assert done.stderr == "error: HTML to a terminal\n  hint: `> report.html`, or `--out DIR`\n"


def test_43_uncommitted_changes_are_warned_about_and_kept(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (here / "train.py").write_text("x = 1\n")
    for words in (["init", "-q", "."], ["add", "train.py"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], cwd=here, check=True, capture_output=True)
    (here / "train.py").write_text(PROGRAM)
    result = a_result_for(here / "train.py", a_change("num_workers", 0, 2))
    (here / "result.json").write_text(result.to_json())
    said = say(capsys, "apply", "result.json", "--write")
    assert said.code == 0
    assert "warning: train.py has uncommitted changes; backup at train.py.orig" in said.err
    assert (here / "train.py.orig").read_text() == PROGRAM


@pytest.mark.slow
def test_26_a_budget_below_one_baseline_run_is_refused_with_one_that_is_enough(
    here: Path, warm: Warm
) -> None:
    lay_out(Row((), 2, (), files={"train.py": SLEEPY}), here)
    done = warm.run("-m", "advisor", "tune", "train.py", "--budget", "2s", cwd=here)
    assert done.returncode == 2, done.stderr
    assert "error: one baseline run takes " in done.stderr and "the budget is 2s" in done.stderr
    assert "hint: `--budget " in done.stderr and "fewer `--steps`" in done.stderr


SLEEPY = """
import time
import torch
p = torch.nn.Parameter(torch.ones(2))
o = torch.optim.SGD([p], 0.1)
for _ in range(400):
    time.sleep(0.1)
    o.zero_grad()
    (p ** 2).sum().backward()
    o.step()
"""
