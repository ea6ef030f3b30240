"""Whoever of tuner and supervisor is killed, nothing of their trials is left."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest
from launched_targets import Make, a_launcher, a_script, a_workload
from supervised import marked, until

from advisor.tuners.launching.launch import Launcher, StuckProcess
from advisor.tuners.launching.session import Session
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.supervision.process_tree import children, is_subreaper, living_since
from advisor.tuners.trial.spec import Target

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl"),
    pytest.mark.usefixtures("no_process_remains", "one_thread"),
]


LEAVES_A_CHILD = """
    import subprocess
    told = f'sleeper-{os.getsid(0)}'
    if not os.path.exists(told):
        sleeper = subprocess.Popen(['sleep', '300'], start_new_session=True)
        open(told, 'a').write(f'{sleeper.pid}\\n')
"""


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(a_script, id="script", marks=pytest.mark.long),
        pytest.param(a_workload, id="forked", marks=pytest.mark.long),
        pytest.param(partial(a_workload, workers=2), id="forked with workers"),
    ],
)
def test_what_a_killed_supervisor_leaves_is_ended_while_other_trials_live_on(
    make: Make, tmp_path: Path, no_process_remains: str
) -> None:
    others = set(children(os.getpid()))
    bystander = subprocess.Popen(["sleep", "300"], start_new_session=True)
    with a_launcher(make(tmp_path, LEAVES_A_CHILD), tmp_path) as launcher:
        other, other_trial = a_running_session(launcher)
        session, trial = a_running_session(launcher)
        sleeper, other_sleeper = (psutil.Process(sleeper_of(pid, tmp_path)) for pid in (trial, other_trial))
        os.kill(psutil.Process(trial).ppid(), signal.SIGKILL)
        with pytest.raises(TrialFailed) as raised:
            session.slot(100_000, limit_s=60)
        assert raised.value.failure == Failure("killed", "its supervisor was killed from outside")
        assert living_since(sleeper.pid) is None and living_since(trial) is None
        assert len(other.slot(3).step_s) == 3
        assert other_sleeper.is_running() and bystander.poll() is None
        other.stop()
    assert is_subreaper() is False
    left = [pid for pid in children(os.getpid()) if pid not in others]
    assert [process.pid for process in marked(no_process_remains)] == [bystander.pid] == left
    bystander.kill()
    bystander.wait()


def a_running_session(launcher: Launcher) -> tuple[Session, int]:
    """A session after a few steps, and the pid of its trial."""
    session = launcher.start(1, {}, {})
    assert isinstance(session, Session)
    known = set(launcher.adoption.sessions)
    session.first_step()
    session.slot(2)
    (trial,) = launcher.adoption.sessions - known
    return session, trial


def sleeper_of(trial: int, folder: Path) -> int:
    file = folder / f"sleeper-{trial}"
    until(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(file.read_text().split()[0])


A_TUNER = """
import sys, time
from pathlib import Path
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.trial.spec import Target
kind, name = sys.argv[1:]
with Launcher(Target(kind, name, cwd='.'), Path('study').absolute(), device='cpu') as launcher:
    session = launcher.start(1, {}, {})
    session.first_step()
    session.slot(2)
    print('running', flush=True)
    session.slot(10**9, limit_s=10**9)
"""


@pytest.mark.parametrize(
    ("make", "fewest"),
    [
        pytest.param(a_script, 3, id="script", marks=pytest.mark.long),
        pytest.param(partial(a_workload, workers=2), 7, id="forked"),
    ],
)
def test_a_killed_tuner_leaves_no_process(
    make: Make, fewest: int, tmp_path: Path, no_process_remains: str
) -> None:
    target = make(tmp_path)
    (tmp_path / "study").mkdir()
    command = [sys.executable, "-c", A_TUNER, target.kind, target.name]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as tuner:
        assert tuner.stdout is not None and tuner.stdout.readline() == "running\n"
        assert len(marked(no_process_remains)) >= fewest
        tuner.kill()
    until(lambda: not marked(no_process_remains), 60)


def test_what_no_signal_ends_keeps_the_launcher_from_starting_more(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    with Launcher(
        Target("script", "train.py", cwd=str(tmp_path)), tmp_path / "study", measures_on="CPU 0"
    ) as launcher:
        launcher.stuck(2)
        launcher.stuck(1)
        with pytest.raises(StuckProcess, match=r"2 processes of a trial did not end .* measured on CPU 0"):
            launcher.start(1, {}, {})
