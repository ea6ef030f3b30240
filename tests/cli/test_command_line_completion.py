"""What a shell is told when a word is to be completed: choices, knobs, values, studies, rules, files."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from command_line import HEAVY
from result_builder import a_result

from advisor.cli import AVAILABLE, _commands
from advisor.rules import RULES
from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store
from advisor.tuners.knobs import KNOBS


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADVISOR_STORAGE", raising=False)
    for folder, names in ((".advisor", ("train", "train-2", "other")), ("else.where", ("far",))):
        (tmp_path / folder).mkdir(exist_ok=True)
        url = parse_storage(f"sqlite:///{folder}/studies.db")
        with Store.open(url, create=True, warn=lambda text: None) as store:
            for name in names:
                store.create_study(name, {"target": "train.py"})
                store.save_result(name, a_result())
    return tmp_path


def offered(*words: str) -> list[str]:
    """What is offered for the last word, files left to the shell as ``<file>``."""
    found = BashComplete(_commands(), {}, "advisor", "_ADVISOR_COMPLETE").get_completions(
        list(words[:-1]), words[-1]
    )
    return [f"<{item.type}>" if item.type in ("file", "dir") else str(item.value) for item in found]


CASES: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "a command": (("comp",), ["compare"]),
    "an option": (("tune", "train.py", "--tri"), ["--trials"]),
    "a knob": (("tune", "train.py", "--knob", "num_w"), ["num_workers"]),
    "a knob to fix": (("profile", "train.py", "--fix", "num_w"), ["num_workers"]),
    "a knob in `knobs`": (("knobs", "num_w"), ["num_workers"]),
    "values of a knob": (("tune", "--knob", "amp="), ["amp=off", "amp=bf16", "amp=fp16"]),
    "a second value": (("tune", "--knob", "amp=off,b"), ["amp=off,bf16"]),
    "values of no knob": (("tune", "--knob", "pma="), []),
    "a rule": (("rules", "input_b"), ["input_bound"]),
    "a choice": (("tune", "--format", ""), ["text", "json", "md"]),
    "a choice of another command": (("report", "--format", "s"), ["sarif"]),
    "an objective": (("tune", "--objective", "t"), ["throughput"]),
    "a study": (("tune", "--study", "tr"), ["train", "train-2"]),
    "a study of another storage": (
        ("tune", "--storage", "sqlite:///else.where/studies.db", "--study", ""), ["far"]
    ),
    "a study of no storage": (("tune", "--storage", "sqlite:///nowhere.db", "--study", ""), []),
    "a study of a broken storage": (("tune", "--storage", "foo", "--study", ""), []),
    "a study of a server": (("tune", "--storage", "postgresql://u@h/d", "--study", ""), []),
    "a result": (("report", "tr"), ["train", "train-2"]),
    "a result to compare": (("compare", "train", "o"), ["other"]),
    "a result to apply": (("apply", "train-"), ["train-2"]),
    "a file with a result": (("report", "./x"), ["<file>"]),
    "a script": (("tune", "tr"), ["<file>"]),
    "a trace": (("profile", "tr"), ["<file>"]),
    "a folder": (("tune", "--out", "x"), ["<dir>"]),
    "a reference": (("check", "train.py", "--against", "x"), ["<file>"]),
    "nothing known": (("tune", "--seed", ""), []),
}  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), CASES.values(), ids=CASES)
def test_what_is_offered_is_what_can_be_meant(words: tuple[str, ...], expected: list[str]) -> None:
    assert offered(*words) == expected


def test_all_commands_knobs_and_rules_are_offered() -> None:
    assert offered("") == list(AVAILABLE)
    assert offered("knobs", "") == list(KNOBS)
    assert offered("rules", "") == list(RULES)


@pytest.mark.parametrize("words", [["report", "tr"], ["tune", "--study", "t"]])
def test_completing_loads_nothing_heavy_and_writes_nothing(here: Path, words: list[str]) -> None:
    before = sorted(here.rglob("*"))
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "advisor"], cwd=here, capture_output=True, text=True,
        check=False, env=os.environ | {
            "_ADVISOR_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["advisor", *words]),
            "COMP_CWORD": str(len(words)),
        },
    )  # fmt: skip
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - spent
    assert done.returncode == 0
    assert done.stdout.startswith("plain,")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "advisor.cli.completion" in imported
    assert not imported & set(HEAVY)
    assert spent < 1.5  # of processor time; on a quiet machine it answers in less than 0.3 s
    assert sorted(here.rglob("*")) == before


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_for_bash_completes_in_a_real_shell(here: Path) -> None:
    folder = Path(sys.executable).parent
    script = (
        'eval "$(_ADVISOR_COMPLETE=bash_source advisor)"; COMP_WORDS=(advisor knobs num_w); COMP_CWORD=2; '
        '_advisor_completion advisor num_w knobs; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=here, capture_output=True, text=True, check=False,
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"},
    )  # fmt: skip
    if shutil.which("advisor", path=str(folder)) is None:
        pytest.skip("advisor is not installed beside this Python")
    assert done.stdout.split() == ["num_workers"], done.stderr
