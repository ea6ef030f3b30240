"""Whole trees of processes are ended, whatever they do against it."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from supervised import ESCAPED, STUBBORN, marked, until

from advisor.tuners.supervision import process_tree

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl"),
    pytest.mark.usefixtures("no_process_remains"),
]


A_TUNER = """
import os, subprocess, sys, time
from advisor.tuners.supervision import process_tree
process_tree.become_subreaper()
command = [sys.executable, "-P", "-m", "advisor.tuners.supervision.supervise", "--parent", str(os.getpid())]
command += ["--stdout", "out", "--stderr", "err", "--", sys.executable, "-c", sys.argv[1]]
supervisor = subprocess.Popen(command, start_new_session=True)
print(supervisor.pid, flush=True)
supervisor.wait()
left = process_tree.kill_tree(os.getpid(), grace_s=0.2)
print(supervisor.returncode, left, process_tree.descendants(os.getpid()), flush=True)
"""


def a_tuner(folder: Path, trial: str) -> tuple["subprocess.Popen[str]", int]:
    """A tuner in a process of its own with one trial that is under way, and its supervisor's pid."""
    command = [sys.executable, "-c", A_TUNER, trial]
    tuner = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert tuner.stdout is not None
    supervisor = int(tuner.stdout.readline())
    until((folder / "ready").exists)
    return tuner, supervisor


@pytest.mark.slow
def test_a_killed_tuner_leaves_nothing(tmp_path: Path, no_process_remains: str) -> None:
    tuner, _ = a_tuner(tmp_path, ESCAPED)
    assert len(marked(no_process_remains)) == 4
    with tuner:
        tuner.kill()
    until(lambda: not marked(no_process_remains))


def test_a_killed_supervisor_takes_the_trial_along_and_the_tuner_ends_the_rest(tmp_path: Path) -> None:
    tuner, supervisor = a_tuner(tmp_path, ESCAPED)
    os.kill(supervisor, signal.SIGKILL)
    told, _ = tuner.communicate(timeout=60)
    assert told == "-9 0 []\n"


def test_a_tree_is_killed_but_for_what_is_spared(tmp_path: Path) -> None:
    code = f"""
        import os, subprocess, sys
        from advisor.tuners.supervision.process_tree import become_subreaper, descendants, kill_tree
        def start(*command): return subprocess.Popen(command, start_new_session=True)
        def wait_for(name):
            while not os.path.exists(name): pass
        become_subreaper()
        spared = start('sleep', '60')
        other = start('sh', '-c', '"$0" -c "$1" & wait', sys.executable, {STUBBORN!r})
        wait_for('ready')
        assert len(descendants(other.pid)) == 1
        assert kill_tree(other.pid, grace_s=0.1) == 0
        assert descendants(os.getpid()) == [spared.pid, other.pid], descendants(os.getpid())
        assert other.wait() == -15
        os.remove('ready')
        start(sys.executable, '-c', {ESCAPED!r})
        wait_for('ready')
        assert kill_tree(os.getpid(), grace_s=0.1, spare=[spared.pid]) == 0
        assert descendants(os.getpid()) == [spared.pid] and spared.poll() is None
        assert kill_tree(spared.pid) == 0 and spared.wait() == -15
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, timeout=60, check=False)
    assert ran.returncode == 0


@pytest.mark.parametrize(
    ("member", "files"),
    [
        ("0::/user/trial", {"user/trial/memory.max": "max", "user/memory.max": "4096"}),
        ("4:memory:/user/trial", {"memory/user/trial/memory.limit_in_bytes": "4096"}),
        ("9:cpu:/\n4:memory,x:/of/the/host", {"memory/memory.limit_in_bytes": "4096"}),
    ],
    ids=["version 2, of a parent", "version 1", "version 1 in a container"],
)
def test_the_least_limit_of_memory_counts(
    member: str, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups(tmp_path, monkeypatch, member, files)
    assert process_tree.memory_limit() == 4096


def test_without_a_limit_the_memory_of_the_machine_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups(tmp_path, monkeypatch, "0::/", {})
    assert 2**20 < process_tree.memory_limit() <= psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("member", "file", "count"),
    [
        ("0::/trial", "trial/memory.events", "low 0\noom 3\noom_kill 2"),
        ("4:memory:/trial", "memory/trial/memory.oom_control", "under_oom 0\noom_kill 2"),
    ],
    ids=["version 2", "version 1"],
)
def test_processes_that_the_kernel_killed_for_memory_are_counted(
    member: str, file: str, count: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups(tmp_path, monkeypatch, member, {file: count})
    assert process_tree.oom_kills() == 2


def cgroups(folder: Path, monkeypatch: pytest.MonkeyPatch, member: str, files: dict[str, str]) -> None:
    """What the kernel would say of them."""
    for name, text in files.items():
        file = folder / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    (folder / "membership").write_text(member + "\n")
    monkeypatch.setattr(process_tree, "CGROUPS", folder / "cgroup")
    monkeypatch.setattr(process_tree, "MEMBERSHIP", folder / "membership")
