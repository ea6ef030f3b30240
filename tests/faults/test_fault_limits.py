"""Limits of this machine that a program meets: processes, memory of a cgroup, folders that cannot be."""

import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fault_oracle
import pytest
from supervised import MARK
from toy import Toy

from advisor.base.settings import Settings, TargetRequest
from advisor.base.signals import StopRequests
from advisor.report.progress import progress_here
from advisor.stages.device_lock import FOLDER_VARIABLE
from advisor.stages.launching import Caller, open_launcher

pytestmark = pytest.mark.faults

OTHER_USER = 54321  # of whom nothing runs here
READING = "+dac_override,+dac_read_search,+fowner"  # our own program lies where others may not look
HERE = str(Path(__file__).parent)


@contextmanager
def a_cgroup(controller: str, **limits: int) -> Iterator[Path]:
    """A cgroup of its own; the test is skipped where none may be made."""
    folder = Path("/sys/fs/cgroup", controller, f"advisor-test-{uuid.uuid4().hex[:8]}")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup may be made: {error}")
    try:
        for name, value in limits.items():
            (folder / f"{controller}.{name}").write_text(str(value))
        yield folder
    finally:
        folder.rmdir()  # fails where a process is left


def within(group: Path, program: str, folder: Path, mark: str) -> str:
    """What a Python program says that runs, with all its processes, in a cgroup."""
    script = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-c", program, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([HERE, *sys.path]), MARK: mark},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


BOMB = """
import sys
from pathlib import Path
from test_fault_trials import a_launcher
from advisor.tuners.supervision.failures import TrialFailed
BODY = '''
if not os.path.exists("bombed"):
    open("bombed", "w").close()
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)
'''
with a_launcher(Path(sys.argv[1]), BODY) as launcher:
    launcher.limits.start_s = 120
    launcher.limits.for_steps = lambda steps: 3.0
    session = launcher.start(1, {}, {})
    session.first_step()
    try:
        session.slot(50)
    except TrialFailed as failed:
        print(failed.failure.cause)
    launcher.limits.for_steps = lambda steps: 60.0
    session = launcher.start(2, {}, {})
    session.first_step()
    print(len(session.slot(50).step_s) > 0)
    session.stop()
"""


def test_a_fork_bomb_ends_with_its_trial_and_the_next_one_runs(
    tmp_path: Path, no_process_remains: str
) -> None:
    with a_cgroup("pids", max=60) as group:
        said = within(group, BOMB, tmp_path, no_process_remains)
        fault_oracle.wait_until_gone(no_process_remains)
    assert said.split() == ["timeout", "True"]


HUNGRY = """
import sys
from pathlib import Path
from test_fault_trials import a_launcher, failure_of
failure = failure_of(a_launcher(Path(sys.argv[1]), "kept = [bytearray(b'x' * 2**24) for _ in range(400)]"))
print(failure.cause, failure.message)
"""


def test_what_the_kernel_kills_for_lack_of_memory_is_told_by_its_counter(
    tmp_path: Path, no_process_remains: str
) -> None:
    with a_cgroup("memory", limit_in_bytes=2**30) as group:
        said = within(group, HUNGRY, tmp_path, no_process_remains)
        fault_oracle.wait_until_gone(no_process_remains)
    assert said.startswith("oom_host killed by the kernel for lack of memory, peak RSS"), said


@pytest.fixture
def folder_of_another_user() -> Iterator[Path]:
    """Below a folder that everybody may enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="advisor-limits-") as name:
        os.chown(name, OTHER_USER, -1)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed, whom the limit binds")
def test_too_few_processes_are_named_with_the_command_that_allows_more(
    folder_of_another_user: Path, no_process_remains: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = folder_of_another_user / "locks"
    monkeypatch.setenv(FOLDER_VARIABLE, str(locks))
    toy = Toy(folder_of_another_user / "toy", no_process_remains)
    locks.mkdir(mode=0o700)
    limited = [
        "setpriv", f"--reuid={OTHER_USER}", "--clear-groups", f"--inh-caps={READING}",
        f"--ambient-caps={READING}", f"--bounding-set=-all,{READING}", "prlimit", "--nproc=1:1",
    ]  # fmt: skip
    for path in (locks, toy.folder, *toy.folder.rglob("*")):
        os.chown(path, OTHER_USER, -1)
    code, said = toy.run(wrap=limited)
    assert code == 5, said
    assert "no more processes" in said and "ulimit -u" in said
    fault_oracle.check(toy.folder, mark=toy.mark, code=code, scratch=True)


COMPILING = """
import sys
from pathlib import Path
import torch
model = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(200):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
"""


def test_a_cache_that_cannot_be_is_replaced_by_one_of_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_process_remains: str
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/proc/nope")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(COMPILING)
    (tmp_path / "study").mkdir(mode=0o700)
    caller = Caller(progress_here(quiet=True), StopRequests())
    settings = Settings(target=TargetRequest(kind="script", name="train.py"), device="cpu")
    with open_launcher(settings, tmp_path / "study", caller) as launcher:
        launcher.limits.start_s = 200
        session = launcher.start(1, {}, {})
        session.first_step()
        assert session.slot(5).step_s
        outcome = session.stop()
    assert outcome.compile.compiled and not outcome.compile.failures
    assert any((tmp_path / "study" / "compile-cache").iterdir())
    assert [text for text in caller.warnings if "/proc/nope" in text and "TORCHINDUCTOR_CACHE_DIR" in text]
