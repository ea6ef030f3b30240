"""What the other commands print, write and refuse."""

import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import a_machine
from command_line import HEAVY, assert_told_once, contents, go_to, say
from result_builder import a_profile_result, a_result

from advisor.base.errors import AdvisorError, NoValidTrial, TargetError, UsageError
from advisor.base.settings import Settings, TargetRequest
from advisor.cli.commands.tune import resume_command, show
from advisor.cli.failures import Face, from_bug, report_failure
from advisor.result.document import ResultData
from advisor.result.reading import read_document
from advisor.storage.contract import study_contract
from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store
from advisor.tuners.knobs import KNOBS

STUDY = "train"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))
    return tmp_path


@pytest.fixture
def stored(here: Path) -> ResultData:
    """A finished study in the default storage, and one that has not measured anything."""
    result = a_result()
    with Store.open(
        parse_storage("sqlite:///.advisor/studies.db"), create=True, warn=lambda text: None
    ) as store:
        for name in (STUDY, "begun"):
            contract = study_contract(
                objective="goodput", direction="maximize", space={}, target="train.py", files={},
                machine=a_machine(), advisor_version="0.1.0",
            )  # fmt: skip
            store.create_study(name, contract)
        store.save_result(STUDY, result)
        store.mark_status(STUDY, "complete")
    return result


def test_a_stored_result_is_printed_again(stored: ResultData, capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "report", STUDY, "--format", "json")
    assert (said.code, said.out) == (0, stored.to_json())


def test_a_result_is_found_by_its_file_and_by_its_folder(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "old").mkdir()
    (here / "old" / "result.json").write_text(a_result().to_json())
    by_file = say(capsys, "report", "old/result.json", "--format", "md")
    by_folder = say(capsys, "report", "old", "--format", "md")
    assert by_file == by_folder
    assert by_file.out.strip()


def test_a_report_is_written_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "result.json").write_text(a_result().to_json())
    said = say(capsys, "report", "result.json", "--out", "again")
    assert said.code == 0
    assert sorted(path.name for path in (here / "again").iterdir()) == [
        "changes.patch", "report.html", "report.md", "result.json",
    ]  # fmt: skip
    assert read_document(here / "again") == a_result()


REFUSED: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    "none": ((), 2, ("Missing argument 'RESULT'.",)),
    "35 no such file": (("nosuch.json",), 2, ("nosuch.json: no such file",)),
    "35 not a result": (("notes.json", "--format", "md"), 2,
                        ("notes.json is not a result of advisor (no schema_version)",)),
    "38": (("train", "--format", "xml"), 2, ("'xml' is not one of 'html', 'json', 'md', 'sarif'",)),
    "46": (("trian", "--format", "md"), 2, ("no study 'trian'", "train", "`advisor studies` lists all")),
    "48": (("a b", "--format", "md"), 2, ("use letters, digits, . _ -",)),
    "50": (("begun", "--format", "md"), 4, ("nothing measured yet",)),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "texts"), REFUSED.values(), ids=REFUSED)
def test_a_report_that_cannot_be_made_is_refused(
    here: Path, stored: ResultData, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int,
    texts: tuple[str, ...],
) -> None:  # fmt: skip
    (here / "notes.json").write_text("{}")
    before = contents(here)
    assert_told_once(say(capsys, "report", *arguments), code, texts)
    assert contents(here).keys() == before.keys()


def test_reports_and_studies_are_shown_without_torch(here: Path, stored: ResultData) -> None:
    (here / "profile.json").write_text(a_profile_result().to_json())
    profiled = [["report", "profile.json", "--format", name] for name in ("html", "json", "md", "sarif")]
    commands = [["report", STUDY, "--format", "html"], ["studies"], *profiled]
    program = f"""
import sys
from advisor.cli import main
assert not any(main(words) for words in {commands!r})
print(*sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=here, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_studies_are_listed_with_their_verdict(
    stored: ResultData, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {row["name"]: row for row in json.loads(say(capsys, "studies", "--format", "json").out)}
    assert {name: row["verdict"] for name, row in rows.items()} == {STUDY: "change", "begun": None}
    text = say(capsys, "studies").out
    assert text.splitlines()[0].split() == ["study", "created", "target", "trials", "verdict", "status"]
    assert all(len(line) <= 80 for line in text.splitlines())


def test_no_studies_is_no_error(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = say(capsys, "studies")
    assert (said.code, said.out) == (0, "No studies yet. `advisor tune TARGET` makes the first.\n")
    assert list(here.iterdir()) == []


def test_every_knob_is_listed_with_its_first_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    lines = say(capsys, "knobs").out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == list(KNOBS)
    assert all(line.strip() for line in lines)


@pytest.mark.parametrize("name", KNOBS)
def test_the_page_of_a_knob_says_what_it_takes_and_how_to_adopt_it(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    page = say(capsys, "knobs", name).out
    assert page.startswith(f"{name}\n")
    assert f"Numbers: {KNOBS[name].semantics.value}" in page
    assert f"--knob {name}" in page
    facts = json.loads(say(capsys, "knobs", name, "--format", "json").out)
    assert facts["id"] == name


def a_run(*command: str) -> Settings:
    return Settings(
        target=TargetRequest(kind="script", name="train.py"), command=command, out=Path("advisor-report")
    )


def test_a_result_is_printed_with_the_place_of_its_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(a_result(), a_run("tune", "train.py"), "json") == 0
    written = capsys.readouterr()
    assert written.out == a_result().to_json()
    assert written.err == "Report: advisor-report/report.html\n"


def test_an_interrupted_run_is_shown_and_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    result = a_result()
    result.budget.stopped_by = "interrupted"
    result.study = "train-2"
    assert show(result, a_run("tune", "train.py", "--", "--lr", "1"), "text") == 128 + signal.SIGINT
    assert "To go on: advisor tune train.py --study train-2 --resume -- --lr 1" in capsys.readouterr().err


def test_a_run_that_was_resumed_is_resumed_by_the_same_command() -> None:
    assert (
        resume_command(a_run("tune", "a.py", "--study", "x", "--resume"), "x")
        == "advisor tune a.py --study x --resume"
    )


MODELS: dict[str, str] = {
    "linear": "class Net(nn.Module):\n    def __init__(self, width: int = 8, num_classes=3):\n"
    "        super().__init__()\n"
    "        self.a = nn.Linear(width, 4)\n        self.b = nn.Linear(4, num_classes)\n"
    "    def forward(self, x):\n        return self.b(self.a(x))\n",
    "images": "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.a = nn.Conv2d(3, 4, 3)\n        self.b = nn.Linear(4, 7)\n"
    "    def forward(self, x):\n        return self.b(self.a(x).mean((2, 3)))\n",
    "tokens": "class Block(nn.Module):\n    pass\n\nclass Net(nn.Module):\n"
    "    def __init__(self, vocab=50):\n        super().__init__()\n        self.a = nn.Embedding(vocab, 8)\n"
    "        self.c = Block()\n"
    "        self.b = nn.Linear(8, vocab)\n    def forward(self, x):\n        return self.b(self.a(x))\n",
    "guessed": "class Net(nn.Module):\n    def __init__(self, width, dropout: float, *, num_classes):\n"
    "        super().__init__()\n        self.b = nn.Linear(width, num_classes)\n"
    "    def forward(self, x):\n        return self.b(x)\n",
}  # fmt: skip


def step_of(path: Path) -> float:
    """Import a workload file and compute one loss, as a training run would."""
    import torch

    spec = importlib.util.spec_from_file_location(f"workload_{path.parent.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    workload = module.workload
    inputs, targets = zip(*[workload.dataset()[i] for i in range(4)], strict=True)
    loss = workload.loss(workload.model()(torch.stack(inputs)), torch.stack(targets))
    loss.backward()
    return float(loss.detach())


@pytest.fixture
def fresh_modules(monkeypatch: pytest.MonkeyPatch, here: Path) -> Callable[[str], None]:
    """Forget modules that a workload file imports, and let the path be as before afterwards."""
    monkeypatch.setattr(sys, "path", [str(here), *sys.path])

    def forget(name: str) -> None:
        monkeypatch.delitem(sys.modules, name, raising=False)

    return forget


@pytest.mark.parametrize("name", MODELS)
def test_a_workload_file_is_prefilled_from_a_model_and_runs(
    here: Path, capsys: pytest.CaptureFixture[str], fresh_modules: Callable[[str], None], name: str
) -> None:
    (here / f"net_{name}.py").write_text(f"from torch import nn\n\n{MODELS[name]}")
    said = say(capsys, "init", f"net_{name}.py")
    assert said.code == 0, said.err
    assert said.out.startswith("Wrote workload.py. Lines to look at: ")
    assert step_of(here / "workload.py") > 0
    fresh_modules(f"net_{name}")


def test_a_model_in_another_folder_is_imported_from_there(
    here: Path, capsys: pytest.CaptureFixture[str], fresh_modules: Callable[[str], None]
) -> None:
    (here / "my src").mkdir()
    (here / "my src" / "net_far.py").write_text(f"from torch import nn\n\n{MODELS['linear']}")
    assert say(capsys, "init", "my src/net_far.py", "--out", "far.py").code == 0
    assert step_of(here / "far.py") > 0
    fresh_modules("net_far")


def test_without_a_file_a_workload_of_its_own_is_written(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert say(capsys, "init").code == 0
    assert step_of(here / "workload.py") > 0
    assert say(capsys, "tune", "workload.py", "--dry-run").out.splitlines()[1] == "kind:        workload"


def test_nothing_is_overwritten_and_scripts_are_tuned_as_they_are(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "workload.py").write_text("mine = 1\n")
    (here / "train.py").write_text(f"from torch import nn\n\n{MODELS['linear']}\nprint(Net())\n")
    (here / "work.py").write_text("workload = 1\n")
    before = contents(here)
    assert_told_once(say(capsys, "init"), 2, ("workload.py exists", "another `--out`"))
    assert_told_once(say(capsys, "init", "train.py"), 2, ("tune it as it is: `advisor tune train.py`",))
    assert_told_once(say(capsys, "init", "workload.py"), 2, ("workload.py defines no model",))
    assert_told_once(say(capsys, "init", "work.py"), 2, ("work.py defines a workload already",))
    assert contents(here) == before


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (TargetError("x"), 3),
        (TargetError("x", code="interrupted"), 128 + signal.SIGINT),
        (NoValidTrial("x"), 4),
        (from_bug(KeyError("x")), 70),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_every_kind_of_error_has_its_exit_code_in_text_and_json(
    capsys: pytest.CaptureFixture[str], error: AdvisorError, code: int
) -> None:
    assert report_failure(error, Face(json=True)) == code
    written = capsys.readouterr()
    assert json.loads(written.out)["error"]["exit_code"] == code
    assert ("log: " in written.err) == (code == 70)


def test_the_traceback_of_the_users_program_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    error = TargetError("ValueError: no data", where="train.py:3")
    error.trace = 'Traceback (most recent call last):\n  File "train.py", line 3\nValueError: no data\x1b[2J'
    report_failure(error, Face())
    assert capsys.readouterr().err == (
        'Traceback (most recent call last):\n  File "train.py", line 3\nValueError: no data[2J\n'
        "error: ValueError: no data\n  --> train.py:3\n"
    )
