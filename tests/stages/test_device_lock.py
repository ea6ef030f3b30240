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

import advisor
from advisor.base.errors import EnvironmentProblem
from advisor.stages.device_lock import FOLDER_VARIABLE, SHARED, Held, holding, lock_folder, measured_names

pytestmark = [
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
IN_TURN = """
import os, sys, time
from advisor.stages.device_lock import holding
names = sys.argv[1:]
sys.stdin.read()
for _ in range(5):
    with holding(names, study="x", limit_s=100, waiting=lambda what, s: None, say=lambda text: None):
        for name in names:
            os.close(os.open(f"inside-{name}", os.O_CREAT | os.O_EXCL))
        time.sleep(0.01)
        for name in names:
            os.remove(f"inside-{name}")
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
with holding(["cpu-00000"], study="train", limit_s=60, **quiet) as held:
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
    with elsewhere("train", "cpu-00000", "cpu-00001") as holder, pytest.raises(EnvironmentProblem) as refused:  # noqa: SIM117
        with hold("cpu-00000", "cpu-00001", limit_s=1, say=heard.append):
            pass
    message = f"study 'train' (process {holder.pid}) measures on CPUs 0-1"
    assert (refused.value.message, refused.value.exit_code) == (message, 5)
    assert heard == [f"{message}: waiting, 1 s at most"]


def test_who_waits_gets_the_device_when_the_other_ends(device_locks: Path) -> None:
    asked: list[float] = []
    with elsewhere("train", "cpu-00000") as holder:

        def waiting(what: str, seconds: float) -> None:
            asked.append(seconds)
            if len(asked) == 3:
                holder.kill()

        with holding(["cpu-00000"], study="mine", limit_s=60, waiting=waiting, say=silent) as held:
            assert len(held.descriptors) == 1
            assert held.waited_s >= asked[2]
            assert f'"pid": {os.getpid()}' in (device_locks / "advisor-cpu-00000.lock").read_text()
    assert is_free("cpu-00000")


def test_sets_of_cpus_that_overlap_exclude_each_other_and_others_do_not() -> None:
    with elsewhere("train", "cpu-00001", "cpu-00002"):
        assert not is_free("cpu-00002", "cpu-00003")
        assert not is_free("cpu-00000", "cpu-00001")
        assert is_free("cpu-00000", "cpu-00003")
        with hold("cpu-00000"):
            assert is_free("cpu-00003")


def test_one_process_may_measure_two_programs_in_turn_under_one_lock() -> None:
    with hold("cpu-00000", "cpu-00001") as first:
        with hold("cpu-00001") as second:
            assert second.descriptors == first.descriptors[1:]
        assert not taken_elsewhere("cpu-00001")
        assert os.fstat(first.descriptors[1])
    assert taken_elsewhere("cpu-00000") and taken_elsewhere("cpu-00001")


def test_of_many_tuners_never_two_measure_on_one_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sets = (("0", "1"), ("1", "2"), ("0", "2"), ("0", "1", "2"), ("2",), ("1",))
    many = [
        subprocess.Popen(
            [sys.executable, "-c", IN_TURN, *names], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for names in sets
    ]
    ended = [process.communicate("", timeout=200)[1] for process in many]
    assert [process.returncode for process in many] == [0] * len(sets), ended
    assert not list(tmp_path.glob("inside-*"))


@pytest.mark.parametrize("kind", ["script", "workload", "exec"])
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
            if any(file.path == str(device_locks / "advisor-cpu-00000.lock") for file in process.open_files())
        }
        supervisors = [pid for pid, line in having.items() if "advisor.tuners.supervision.supervise" in line]
        assert sorted(having) == sorted([tuner.pid, *supervisors])  # and so no trial
        assert len(supervisors) == 1
        os.kill(supervisors[0], signal.SIGSTOP)
        tuner.kill()
        tuner.wait()
    try:
        assert not is_free("cpu-00000")
    finally:
        os.kill(supervisors[0], signal.SIGCONT)
    until(lambda: is_free("cpu-00000"), 30)
    until(lambda: not marked(no_process_remains), 30)


def test_a_link_in_place_of_a_lock_is_not_followed(device_locks: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("text")
    (device_locks / "advisor-cpu-00000.lock").symlink_to(tmp_path / "precious")
    with (
        pytest.raises(EnvironmentProblem, match="the lock that keeps two tuners") as refused,
        hold("cpu-00000"),
    ):
        pass
    assert (refused.value.exit_code, (tmp_path / "precious").read_text()) == (5, "text")


def test_a_pipe_in_place_of_a_lock_does_not_hang(device_locks: Path) -> None:
    os.mkfifo(device_locks / "advisor-cpu-00000.lock")
    with pytest.raises(EnvironmentProblem, match="the lock that keeps two tuners"), hold("cpu-00000"):
        pass


@pytest.mark.parametrize("text", ["", "x" * 5000, "[]", '{"pid": "x", "study": 1}', "\0\x1b[2J", "[" * 900])
def test_what_a_lock_says_is_never_trusted(device_locks: Path, text: str) -> None:
    path = device_locks / "advisor-cpu-00000.lock"
    path.write_text(text)
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(EnvironmentProblem, match="another tuner measures on CPU 0"), hold("cpu-00000"):
            pass


def test_a_lock_that_was_removed_keeps_nobody_away(device_locks: Path) -> None:
    with elsewhere("train", "cpu-00000"):
        (device_locks / "advisor-cpu-00000.lock").unlink()
        assert is_free("cpu-00000")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs another user")
def test_users_share_their_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "flock", "-n"]
    before = os.umask(0o077)
    try:
        with tempfile.TemporaryDirectory(prefix="advisor-locks-", dir="/tmp") as folder:
            Path(folder).chmod(0o1777)
            monkeypatch.setenv(FOLDER_VARIABLE, folder)
            path = Path(folder) / "advisor-cpu-00000.lock"
            with hold("cpu-00000"):
                assert stat.S_IMODE(path.stat().st_mode) == 0o666
                assert subprocess.run([*as_nobody, str(path), "true"]).returncode == 1
            assert subprocess.run([*as_nobody, str(path), "true"]).returncode == 0
            path.unlink()
            assert subprocess.run([*as_nobody, str(path), "true"]).returncode == 0
            assert path.stat().st_uid == 65534
            assert is_free("cpu-00000")
    finally:
        os.umask(before)


def test_all_users_look_in_one_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE)
    assert lock_folder() in SHARED
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert lock_folder() in SHARED


def test_where_nothing_is_shared_locks_are_in_a_folder_of_our_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setattr("advisor.stages.device_lock.SHARED", (tmp_path, tmp_path / "missing"))  # not sticky
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    folder = lock_folder()
    assert folder.is_relative_to(tmp_path / "run")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


GPUS = ("GPU-aa", "GPU-bb", "GPU-cc")
CPUS = tuple(f"cpu-{number:05}" for number in sorted(os.sched_getaffinity(0)))


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
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    run = [sys.executable, "-m", "advisor", command, "train.py", "--budget", "3s", "--out", "out"]
    with elsewhere("other", *CPUS) as holder:
        ran = subprocess.run(run, capture_output=True, text=True, timeout=120)
    who = f"study 'other' (process {holder.pid}) measures on CPU"
    assert ran.returncode == 5, ran.stderr
    assert ran.stderr.count(who) == 2
    assert re.search(r"measures on CPUs? [\d,-]+: waiting, 3 s at most\n", ran.stderr)
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
