"""What befalls a real program: each end has its cause, a log, and leaves no process."""

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.session import Session, SessionEnded
from advisor.tuners.search.outcome_check import check_outcome
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision import supervise
from advisor.tuners.supervision.child_start import forking
from advisor.tuners.supervision.ended import Ended
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.spec import Target

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("no_process_remains")]

SCRIPT = """
import ctypes, os, resource, signal, threading, time
import torch
{before}
model = {model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range({steps}):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    if step == 2:
{body}
"""
LINEAR = "torch.nn.Linear(4, 2)"
COMPILED = "torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()))"


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def a_launcher(
    folder: Path, body: str = "pass", *, before: str = "", model: str = LINEAR, steps: int = 100_000
) -> Launcher:
    """Of a program to which ``body`` happens after its third step."""
    code = SCRIPT.format(
        before=before, model=model, steps=steps, body=textwrap.indent(textwrap.dedent(body), " " * 8)
    )
    (folder / "train.py").write_text(code)
    (folder / "study").mkdir()
    target = Target("script", str(folder / "train.py"), cwd=str(folder))
    return Launcher(target, folder / "study", device="cpu", compile_cache=folder / "cache")


def failure_of(launcher: Launcher) -> Failure:
    """What its session raises."""
    with launcher:
        launcher.limits.start_s = 120
        session = launcher.start(1, {}, {})
        with pytest.raises(TrialFailed) as raised:
            session.first_step()
            session.slot(50)
        assert isinstance(session, Session) and not session.alive
        assert (session.folder / "stderr.log").exists()
        return raised.value.failure


@pytest.mark.parametrize(
    ("body", "cause", "told"),
    [
        ("raise torch.OutOfMemoryError('CUDA out of memory')", "oom_device", "OutOfMemoryError"),
        ("raise RuntimeError('CUDA error: device-side assert triggered')", "device_error", "device-side"),
        ("os.kill(os.getpid(), signal.SIGBUS)", "crash_signal", "SIGBUS"),
        ("os.kill(os.getpid(), signal.SIGILL)", "crash_signal", "SIGILL"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "oom_host", "peak RSS"),
        ("os._exit(0)", "user_error", "ended without a result"),
        ("raise OSError(28, 'No space left on device')", "disk_full", "No space"),
        (
            "resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32)); torch.empty(2**34)",
            "oom_host",
            "can't allocate memory",
        ),
    ],
    ids=["cuda memory", "assert", "SIGBUS", "SIGILL", "SIGKILL", "exit", "disk", "RLIMIT_AS"],
)
def test_what_befalls_a_program_has_its_cause(body: str, cause: str, told: str, tmp_path: Path) -> None:
    failure = failure_of(a_launcher(tmp_path, body))
    assert failure.cause == cause, failure
    assert told in failure.message


def test_a_thread_that_goes_on_does_not_delay_the_end(tmp_path: Path) -> None:
    with a_launcher(
        tmp_path, "threading.Thread(target=time.sleep, args=(300,)).start()", steps=8
    ) as launcher:
        session = launcher.start(1, {}, {})
        session.first_step()
        with pytest.raises(SessionEnded) as ended:
            session.slot(50)
    assert (ended.value.outcome.state, ended.value.outcome.failure) == ("ended", None)


def test_a_stopped_program_is_ended_at_its_deadline(tmp_path: Path) -> None:
    with a_launcher(tmp_path, "os.kill(os.getpid(), signal.SIGSTOP)") as launcher:
        session = launcher.start(1, {}, {})
        session.first_step()
        launcher.limits.for_steps = lambda steps: 2.0  # type: ignore[method-assign]  # one minute is the least
        with pytest.raises(TrialFailed) as raised:
            session.slot(50)
    assert raised.value.failure.cause == "timeout"


def test_a_compiler_that_fails_fails_the_compilation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/bin/false")
    failure = failure_of(a_launcher(tmp_path, model=COMPILED))
    assert failure.cause == "compile_failed", failure


def test_a_failure_to_compile_that_is_suppressed_is_not_ranked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/bin/false")
    suppressing = "import torch._dynamo; torch._dynamo.config.suppress_errors = True"
    with a_launcher(tmp_path, before=suppressing, model=COMPILED) as launcher:
        launcher.limits.start_s = 120
        session = launcher.start(1, {}, {})
        session.first_step()
        session.slot(3)
        record = TrialRecord(1, Configuration({}), "screen", outcome=session.stop())
    with pytest.raises(TrialFailed) as raised:
        check_outcome(record)
    assert raised.value.failure.cause == "compile_fell_back"


def test_a_backend_that_never_ends_is_ended_at_the_deadline_of_compiling(tmp_path: Path) -> None:
    slow = "def slow(graph, inputs): time.sleep(300)"
    with a_launcher(tmp_path, before=slow, model=COMPILED[:-1] + ", backend=slow)") as launcher:
        launcher.limits.start_s, launcher.limits.compile_s = 120, 3
        session = launcher.start(1, {}, {})
        with pytest.raises(TrialFailed) as raised:
            session.first_step()
    assert raised.value.failure.cause == "timeout"
    assert "phase compile" in raised.value.failure.message


FULL_SHM = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
from test_fault_trials import a_launcher, failure_of
WORKERS = '''
from torch.utils.data import DataLoader, Dataset
class Items(Dataset):
    def __len__(self): return 64
    def __getitem__(self, index): return torch.ones(2**20)
for batch in DataLoader(Items(), batch_size=8, num_workers=2): pass
'''
failure = failure_of(a_launcher(Path(sys.argv[1]), before=WORKERS))
print(failure.cause, failure.message)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts are made in this test")
def test_shared_memory_that_is_full_is_told(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=4m none /dev/shm && exec "$@"'
    program = FULL_SHM.format(here=str(Path(__file__).parent))
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, "sh", sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True,
        timeout=200, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("shm_full"), done.stdout + done.stderr[-2000:]


FULL_DISK = """
import sys
from pathlib import Path
import torch
from advisor.stages.diagnosing.diagnosis import _written
from advisor.profiles.hooks.recorder import Recorder
from advisor.tuners.supervision.failures import TrialFailed
path = Path(sys.argv[1], "trace.json")
recorder = Recorder(path)
recorder.start()
for _ in range(200): torch.ones(4).exp()
recorder.stop()
try:
    _written(path)
except TrialFailed as failed:
    print(failed.failure.cause, failed.failure.message)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts are made in this test")
def test_a_trace_that_was_not_written_is_noticed(tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o size=16k none {tmp_path} && exec "$@"'
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, "sh", sys.executable, "-c", FULL_DISK, str(tmp_path)],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("disk_full the trace was not written"), done.stdout + done.stderr[-2000:]


def test_what_no_signal_ends_is_waited_for_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, write = os.pipe()
    supervisor = os.fork()
    if supervisor == 0:
        monkeypatch.setattr(supervise, "send", lambda *_: None)  # as if all were in uninterruptible sleep
        monkeypatch.setattr(supervise, "KILL_WAIT_S", 1.0)
        start = forking(lambda: time.sleep(300))
        parent = os.getppid()
        ended = supervise.supervise(
            start, parent=parent, grace_s=0.2, deadline_s=0.5, report=lambda ended: ended.tell(write)
        )
        os._exit(0 if ended.stuck else 1)
    os.close(write)
    with open(told) as line:
        ended = Ended(**json.loads(line.readline()))
    os.waitpid(supervisor, 0)
    assert (ended.stuck, ended.reason) == (1, "deadline")
