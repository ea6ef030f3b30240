"""A secret of a run, among the arguments or in the environment, reaches neither report nor database."""

import json
import os
import re
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from result_builder import MACHINE, a_result

from advisor.base.errors import UsageError
from advisor.base.redaction import HIDDEN, without_secrets
from advisor.base.settings import Settings, TargetRequest
from advisor.patching.applying import Patch
from advisor.profiles.facts.machine import read_machine
from advisor.result.apply import Setting
from advisor.result.comparability import other_request
from advisor.result.conditions import reproduce
from advisor.result.header import Target
from advisor.runs.verify import refuse_promise

SECRET, OTHER_SECRET = "hunter2-in-arguments", "hunter2-in-the-environment"
LOCAL = re.compile(r"^\(?'(127\.|::1|localhost)|^b?'/|^''|^b?'\\x00")  # loopback, or a socket file
SCRIPT = f"""
import os
import sys
import torch

assert "{SECRET}" in sys.argv and os.environ["SERVICE_TOKEN"] == "{OTHER_SECRET}"
model = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100_000):
    optimizer.zero_grad()
    model(torch.ones(8, 32)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["--api-key", "abc"], ["--api-key", HIDDEN]),
        (["--wandb_token=abc", "x"], [f"--wandb_token={HIDDEN}", "x"]),
        (["s3://user:pw@host/data?signature=1"], [f"s3://{HIDDEN}@host/data?{HIDDEN}"]),
        (
            ["postgresql://me:p/w@h:5/studies?host=/run/db&x=secret"],
            [f"postgresql://me:{HIDDEN}@h:5/studies?host=/run/db&{HIDDEN}"],
        ),
        (["postgresql://postgres:@/studies?host=/run/db"], ["postgresql://postgres@/studies?host=/run/db"]),
        (["--storage=postgresql://h/studies"], ["--storage=postgresql://h/studies"]),
        (["--password", "--lr", "0.1"], ["--password", "--lr", "0.1"]),
        (["--max-tokens", "512", "--tokenizer", "gpt2"], ["--max-tokens", "512", "--tokenizer", "gpt2"]),
        (["--data", "/home/someone/data"], ["--data", "/home/someone/data"]),
    ],
)
def test_what_names_a_secret_loses_its_value_and_nothing_else_does(words: list[str], kept: list[str]) -> None:
    assert without_secrets(words) == kept
    assert without_secrets(kept) == kept


def test_a_command_is_shown_so_that_it_reaches_the_same_database() -> None:
    words = ["tune", "train.py", "--storage", "postgresql://me:pw@/studies?host=/run/db&sslmode=require"]
    said = reproduce(a_result(command=without_secrets(words)))
    assert said == ("advisor tune train.py --storage 'postgresql://me@/studies?host=/run/db&sslmode=require'")


def test_a_result_without_its_secret_is_still_one_of_the_same_request() -> None:
    stored = a_result(target=Target(path="train.py", kind="script", args=["--api-key", HIDDEN]), command=[])
    now = TargetRequest(kind="script", name="train.py", args=("--api-key", "abc"))
    assert other_request(stored, Settings(target=now)) == []


def test_a_program_whose_secret_is_not_stored_is_not_started_without_it(tmp_path: Path) -> None:
    machine = read_machine()
    stored = a_result(
        target=Target(path="train.py", kind="script", args=["--api-key", HIDDEN]),
        machine={**MACHINE, **machine.as_json()},
    )
    patch = Patch(
        name="train.py",
        file=tmp_path / "train.py",
        edited=[Setting(knob="amp", **{"from": "off"}, to="bf16")],
    )
    with pytest.raises(UsageError, match="given a secret, which is not stored"):
        refuse_promise(stored, patch, machine)


HOOK = """
import sys

def note(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.sendto"):
        with open({file!r}, "a") as told:
            told.write(f"{{arguments[-1]!r}}\\n")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        with open({file!r}, "a") as told:
            told.write(f"{{arguments[0]!r}}\\n")

sys.addaudithook(note)
"""


@dataclass(frozen=True)
class Run:
    """A real run of ``tune``: what it said, its folder, and the addresses that its sockets were given."""

    out: str
    err: str
    folder: Path
    addresses: frozenset[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder, beside = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("hook")
    (folder / "train.py").write_text(SCRIPT)
    (beside / "sitecustomize.py").write_text(HOOK.format(file=str(beside / "addresses")))
    done = subprocess.run(
        [
            sys.executable, "-m", "advisor", "tune", "train.py",
            "--knob", "placebo", "--budget", "90s", "--trials", "1",
            "--format", "json", "--", "--api-key", SECRET,
        ],
        cwd=folder, capture_output=True, text=True, check=False, timeout=400,
        env={
            **os.environ, "OMP_NUM_THREADS": "1", "SERVICE_TOKEN": OTHER_SECRET, "PYTHONPATH": str(beside),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check = "import socket; socket.socket(type=socket.SOCK_DGRAM).connect(('192.0.2.1', 9))"
    subprocess.run([sys.executable, "-c", check], env={**os.environ, "PYTHONPATH": str(beside)}, check=False)
    return Run(done.stdout, done.stderr, folder, frozenset((beside / "addresses").read_text().splitlines()))


@pytest.mark.slow
def test_no_document_and_no_database_holds_a_secret_of_the_run(run: Run) -> None:
    assert json.loads(run.out)["target"]["args"] == ["--api-key", HIDDEN]
    kept = list((run.folder / "advisor-report").iterdir())
    kept += [path for path in (run.folder / ".advisor").iterdir() if path.is_file()]
    assert {"report.html", "result.json", "report.md", "studies.db"} <= {path.name for path in kept}
    for secret in (SECRET, OTHER_SECRET):
        assert secret not in run.out + run.err
        assert [path.name for path in kept if secret.encode() in path.read_bytes()] == []


@pytest.mark.slow
def test_what_is_kept_of_a_run_is_for_its_owner_alone(run: Run) -> None:
    (study,) = (run.folder / ".advisor" / "studies").iterdir()
    private = [run.folder / ".advisor", study.parent, study, study / "compile-cache"]
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in private} == {
        path.name: 0o700 for path in private
    }


@pytest.mark.slow
def test_a_run_of_tune_connects_to_nothing_outside(run: Run) -> None:
    probe = "('192.0.2.1', 9)"
    assert probe in run.addresses, "the hook saw nothing"
    outside = [each for each in run.addresses - {probe} if not LOCAL.search(each)]
    assert outside == []
