"""What is measured on belongs to one tuner of the host at a time, and to what is left of a killed one."""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from supervised import marked, until
from warm import Warm

import advisor
from advisor.base.errors import EnvironmentProblem
from advisor.stages.device_lock import FOLDER_VARIABLE, SHARED, Held, holding, lock_folder, measured_names

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
    pytest.mark.usefixtures("no_process_remains"),
]

HOLD = """
import sys
from advisor.stages.device_lock import holding
with holding(sys.argv[2:], study=sys.argv[1], limit_s=60, waiting=lambda what, s: None, say=print):
    print("held", flush=True)
    sys.stdin.read()
"""
SCRIPT = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
"""
WORKLOAD = """
import torch
from advisor.workloads.workload import Workload
workload = Workload(
    model=lambda: torch.nn.Linear(4, 2), dataset=lambda: torch.utils.data.TensorDataset(torch.ones(64, 4)),
    loss=lambda output, target: output.sum(), optimizer=lambda p: torch.optim.SGD(p, lr=0.1), batch_size=8,
    step=lambda model, batch: model(batch[0]).sum(),
)
"""
A_TUNER = """
import sys
from pathlib import Path
from advisor.stages.device_lock import holding
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.trial.spec import Target
kind, name, *arguments = sys.argv[1:]
target = Target(kind, name, tuple(arguments), cwd='.')
quiet = dict(waiting=lambda what, s: None, say=print)
with holding(["CPU 0"], study="train", limit_s=60, **quiet) as held:
    with Launcher(target, Path('study').absolute(), device='cpu', held=held.descriptors) as launcher:
        session = launcher.start(1, {}, {})
        session.first_step()
        print('running', flush=True)
        session.slot(10**9, limit_s=10**9)
"""


def silent(*heard: object) -> None:
    """Nobody waits long enough to be told."""


@contextlib.contextmanager
def elsewhere(study: str, *names: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds these until its stdin is closed."""
    command = [sys.executable, "-c", HOLD, study, *names]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        try:
            yield holder
        finally:
            holder.kill()


def hold(
    *names: str, limit_s: float = 0.3, say: Callable[[str], None] = silent
) -> "contextlib.AbstractContextManager[Held]":
    return holding(names, study="mine", limit_s=limit_s, waiting=silent, say=say)


def is_free(*names: str) -> bool:
    try:
        with hold(*names, limit_s=0):
            return True
    except EnvironmentProblem:
        return False


def taken_elsewhere(name: str) -> bool:
    """Another process could take it now."""
    program = HOLD.replace("limit_s=60", "limit_s=0")
    run = [sys.executable, "-c", program, "other", name]
    return subprocess.run(run, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def test_who_waits_too_long_is_told_who_measures() -> None:
    heard: list[str] = []
    with elsewhere("train", "CPUs 0-1") as holder, pytest.raises(EnvironmentProblem) as refused:  # noqa: SIM117
        with hold("CPUs 0-1", limit_s=1, say=heard.append):
            pass
    message = f"study 'train' (process {holder.pid}) measures on CPUs 0-1"
    assert (refused.value.message, refused.value.exit_code) == (message, 5)
    assert heard == [f"{message}: waiting, 1 s at most"]


def test_who_waits_gets_the_device_when_the_other_ends(device_locks: Path) -> None:
    asked: list[float] = []
    with elsewhere("train", "CPU 0") as holder:

        def waiting(what: str, seconds: float) -> None:
            asked.append(seconds)
            if len(asked) == 3:
                holder.kill()

        with holding(["CPU 0"], study="mine", limit_s=60, waiting=waiting, say=silent) as held:
            assert len(held.descriptors) == 1
            assert held.waited_s >= asked[2]
            assert f'"pid": {os.getpid()}' in (device_locks / "advisor-CPU_0.lock").read_text()
    assert is_free("CPU 0")


def test_a_process_does_not_wait_for_itself_and_keeps_its_lock_to_the_end() -> None:
    with hold("CPUs 0-1") as first:
        with hold("CPUs 0-1") as second:
            assert second.descriptors == first.descriptors
        assert not taken_elsewhere("CPUs 0-1")
    assert taken_elsewhere("CPUs 0-1")


def test_each_set_of_cpus_and_each_gpu_has_a_lock_of_its_own() -> None:
    with elsewhere("train", "GPU-aa", "GPU-cc"):
        assert not is_free("GPU-bb", "GPU-cc")
        assert is_free("GPU-bb") and is_free("CPUs 0-1")


@pytest.mark.parametrize(
    "kind", ["script", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("workload", "exec"))]
)
def test_what_a_killed_tuner_left_running_keeps_the_device(
    kind: str, tmp_path: Path, no_process_remains: str, device_locks: Path
) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "train.py").write_text(WORKLOAD if kind == "workload" else SCRIPT)
    words = ["exec", sys.executable, "train.py"] if kind == "exec" else [kind, "train.py"]
    command = [sys.executable, "-c", A_TUNER, *words]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as tuner:
        assert tuner.stdout is not None and tuner.stdout.readline() == "running\n"
        having = {
            process.pid: process.cmdline()
            for process in marked(no_process_remains)
            if any(file.path == str(device_locks / "advisor-CPU_0.lock") for file in process.open_files())
        }
        supervisors = [pid for pid, line in having.items() if "advisor.tuners.supervision.supervise" in line]
        assert sorted(having) == sorted([tuner.pid, *supervisors])  # and so no trial
        assert len(supervisors) == 1
        os.kill(supervisors[0], signal.SIGSTOP)
        tuner.kill()
        tuner.wait()
    try:
        assert not is_free("CPU 0")
    finally:
        os.kill(supervisors[0], signal.SIGCONT)
    until(lambda: is_free("CPU 0"), 30)
    until(lambda: not marked(no_process_remains), 30)


def test_a_link_in_place_of_a_lock_is_not_followed(device_locks: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("text")
    (device_locks / "advisor-CPU_0.lock").symlink_to(tmp_path / "precious")
    with (
        pytest.raises(EnvironmentProblem, match="the lock that keeps two tuners") as refused,
        hold("CPU 0"),
    ):
        pass
    assert (refused.value.exit_code, (tmp_path / "precious").read_text()) == (5, "text")


@pytest.mark.parametrize("text", ["", "x" * 5000, "[]", '{"pid": "x", "study": 1}', "\0\x1b[2J", "[" * 900])
def test_what_a_lock_says_is_never_trusted(device_locks: Path, text: str) -> None:
    path = device_locks / "advisor-CPU_0.lock"
    path.write_text(text)
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(EnvironmentProblem, match="another tuner measures on CPU 0"), hold("CPU 0"):
            pass


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs another user")
def test_users_share_their_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "flock", "-n"]
    before = os.umask(0o077)
    try:
        with tempfile.TemporaryDirectory(prefix="advisor-locks-", dir="/tmp") as folder:
            Path(folder).chmod(0o1777)
            monkeypatch.setenv(FOLDER_VARIABLE, folder)
            path = Path(folder) / "advisor-CPU_0.lock"
            with hold("CPU 0"):
                assert stat.S_IMODE(path.stat().st_mode) == 0o666
                assert subprocess.run([*as_nobody, str(path), "true"]).returncode == 1
            assert subprocess.run([*as_nobody, str(path), "true"]).returncode == 0
            path.unlink()
            assert subprocess.run([*as_nobody, str(path), "true"]).returncode == 0
            assert path.stat().st_uid == 65534
            assert is_free("CPU 0")
    finally:
        os.umask(before)


def test_all_users_look_in_one_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE)
    assert lock_folder() in SHARED
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert lock_folder() in SHARED


def test_a_variable_that_names_no_folder_is_what_the_hint_is_about(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "none", tmp_path / "file"):
        monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
        with pytest.raises(EnvironmentProblem) as refused, hold("CPU 0"):
            pass
        assert refused.value.hint == "ADVISOR_LOCKS names no folder: make it, or unset the variable"


GPUS = ("GPU-aa", "GPU-bb", "GPU-cc")
CPUS = measured_names("cpu", (), None)


def test_a_set_of_cpus_is_named_by_its_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    for cpus, name in (({3}, "CPU 3"), ({8, 0, 1, 2}, "CPUs 0-2,8")):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cpus=cpus: cpus)
        assert measured_names("cpu", GPUS, None) == (name,)


@pytest.mark.parametrize(
    ("device", "visible", "names"),
    [
        ("cpu", None, CPUS),
        ("auto", "", CPUS),
        ("auto", None, GPUS),
        ("cuda", None, GPUS),
        ("cuda:1", None, ("GPU-bb",)),
        ("cuda:1", "2,0", ("GPU-aa",)),
        ("auto", "2,0", ("GPU-aa", "GPU-cc")),
        ("auto", "GPU-b", ("GPU-bb",)),
        ("auto", "MIG-1,MIG-2", ("MIG-1", "MIG-2")),
        ("auto", "1,9,0", ("GPU-bb",)),
        ("auto", "-1", CPUS),
    ],
)
def test_the_gpus_that_are_seen_are_locked_and_without_them_the_cpus(
    device: str, visible: str | None, names: tuple[str, ...]
) -> None:
    assert measured_names(device, GPUS, visible) == names
    assert measured_names("auto", (), None) == CPUS


@pytest.mark.parametrize("command", ["tune", "profile"])
def test_a_command_that_measures_waits_for_the_device_and_says_for_whom(
    command: str, tmp_path: Path, warm: Warm
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    words = (command, "train.py", "--budget", "1s", "--out", "out")
    with elsewhere("other", *CPUS) as holder:
        ran = warm.run("-m", "advisor", *words, cwd=tmp_path)
    who = f"study 'other' (process {holder.pid}) measures on CPU"
    assert ran.returncode == 5, ran.stderr
    assert ran.stderr.count(who) == 2
    assert re.search(r"measures on CPUs? [\d,-]+: waiting, 1 s at most\n", ran.stderr)
    assert not (tmp_path / "out" / "result.json").exists()


def test_an_interrupt_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    run = [sys.executable, "-m", "advisor", "profile", "train.py", "--budget", "10m"]
    with (
        elsewhere("other", *CPUS),
        subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiter,
    ):
        assert waiter.stderr is not None
        told = ""
        while "waiting, 10 min at most" not in told:
            line = waiter.stderr.readline()
            assert line, told
            told += line
        began = time.monotonic()
        waiter.send_signal(signal.SIGINT)
        _, rest = waiter.communicate(timeout=60)
    assert waiter.returncode == 130, rest
    assert time.monotonic() - began < 60


def test_every_launcher_of_a_target_is_made_under_the_lock() -> None:
    makes = re.compile(r"(?<!\w)Launcher\(")
    files = [file for file in Path(advisor.__file__).parent.glob("**/*.py") if makes.search(file.read_text())]
    assert [file.name for file in files if file.parent.name != "tuners"] == ["launching.py"]
