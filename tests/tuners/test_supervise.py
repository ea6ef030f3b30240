"""A trial ends when it should, its output is kept within bounds, and nothing of it is left."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from advisor.tuners import supervise
from advisor.tuners.supervise import Ended

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl")

MARK = "ADVISOR_TEST_MARK"
ENDLESS = "import time\nwhile True: time.sleep(60)"
STUBBORN = (
    f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen('ready', 'w').close()\n{ENDLESS}"
)
ESCAPED = f"""
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('ready', 'w').close()
        while True: signal.pause()
    os._exit(0)
{ENDLESS}
"""


def marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.pid != os.getpid():
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


@pytest.fixture(autouse=True)
def no_process_remains(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield mark
    left = [(process.pid, process.cmdline()) for process in marked(mark)]
    for pid, _ in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def until(what: Callable[[], bool], limit_s: float = 5.0) -> float:
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < limit_s, "waited in vain"
        time.sleep(0.01)
    return time.monotonic() - began


class Supervised:
    """A supervisor as a program, the trial being Python code that runs in ``folder``."""

    def __init__(self, folder: Path, code: str, *options: str, command: list[str] | None = None) -> None:
        self.folder = folder
        status, status_write = os.pipe()
        control_read, self.control = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", supervise.__file__, "--parent", str(os.getpid())]
            + ["--stdout", str(folder / "out"), "--stderr", str(folder / "err")]
            + ["--status-fd", str(status_write), "--control-fd", str(control_read), *options, "--"]
            + (command or [sys.executable, "-c", textwrap.dedent(code)]),
            cwd=folder,
            pass_fds=(status_write, control_read),
            start_new_session=True,
        )
        os.close(status_write)
        os.close(control_read)
        self._status = status

    def ready(self) -> None:
        until((self.folder / "ready").exists)

    def order(self, text: str) -> None:
        os.write(self.control, text.encode())

    def end(self, limit_s: float = 5.0) -> Ended:
        self.process.wait(limit_s)
        with open(self._status) as status:
            ended = Ended(**json.loads(status.read()))
        os.close(self.control)
        return ended


def an_end(**fields: object) -> dict[str, object]:
    """The fields of an ``Ended`` that do not depend on the machine."""
    usual = {"exit_code": None, "signal": None, "left": 0, "oom_kill": False, "reason": "exit"}
    return usual | {"stacks": False, "stuck": 0} | fields


def stable(ended: Ended) -> dict[str, object]:
    fields = dataclasses.asdict(ended)
    assert fields.pop("peak_rss_bytes") > 1_000_000
    return fields


def test_a_trial_that_ends_by_itself_reports_its_code_and_its_output(tmp_path: Path) -> None:
    trial = Supervised(tmp_path, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert stable(trial.end()) == an_end(exit_code=7)
    assert trial.process.returncode == 7
    assert ((tmp_path / "out").read_text(), (tmp_path / "err").read_text()) == ("out\n", "err\n")
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600


def test_a_trial_ended_by_a_signal_is_told_as_shells_do(tmp_path: Path) -> None:
    trial = Supervised(tmp_path, "import os; os.kill(os.getpid(), 11)")
    assert stable(trial.end()) == an_end(signal=11)
    assert trial.process.returncode == 139


def test_a_program_that_cannot_start_is_named(tmp_path: Path) -> None:
    trial = Supervised(tmp_path, "", command=["no-such-program"])
    assert stable(trial.end()) == an_end(exit_code=127)
    assert (tmp_path / "err").read_text() == "no-such-program: No such file or directory\n"


def test_a_trial_reads_nothing_leads_its_session_and_gets_only_the_descriptors_it_was_given(
    tmp_path: Path,
) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    code = f"""
        import os, sys
        assert sys.stdin.read() == '' and os.getsid(0) == os.getpid()
        listed = [fd for fd in os.listdir('/dev/fd') if os.path.exists('/dev/fd/' + fd)]
        os.write({write}, ' '.join(sorted(listed, key=int)).encode())
    """
    command = [sys.executable, "-I", "-S", supervise.__file__, "--parent", str(os.getpid())]
    command += ["--stdout", "out", "--stderr", "err", "--pass-fd", str(write), "--"]
    subprocess.run(
        [*command, sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        pass_fds=[write],
        timeout=5,
        check=True,
    )
    os.close(write)
    with open(read) as told:
        assert told.read().split() == ["0", "1", "2", str(write)]


def test_what_a_finished_trial_leaves_is_killed_and_counted(tmp_path: Path) -> None:
    trial = Supervised(
        tmp_path, ESCAPED.replace(ENDLESS, "while not os.path.exists('ready'): pass\nos._exit(0)")
    )
    began = time.monotonic()
    assert stable(trial.end()) == an_end(exit_code=0, left=1)
    assert time.monotonic() - began < 2


def test_workers_that_outlive_the_exit_of_the_trial_are_ended(tmp_path: Path) -> None:
    code = """
        import multiprocessing, os, time
        workers = [multiprocessing.Process(target=time.sleep, args=(60,)) for _ in range(3)]
        for worker in workers: worker.start()
        os._exit(0)
    """
    assert stable(Supervised(tmp_path, code).end()) == an_end(exit_code=0, left=3)


def test_a_leftover_that_holds_the_output_open_delays_the_end_by_less_than_a_second(tmp_path: Path) -> None:
    code = "import os, signal, time\nsignal.signal(15, signal.SIG_IGN)\nif os.fork() == 0: time.sleep(60)\n"
    trial = Supervised(tmp_path, code + "print('done', time.monotonic(), flush=True)\nos._exit(0)")
    assert stable(trial.end()) == an_end(exit_code=0, left=1)
    word, when = (tmp_path / "out").read_text().split()
    assert word == "done" and time.monotonic() - float(when) < 1


def test_a_deadline_asks_for_stacks_first(tmp_path: Path) -> None:
    code = """
        import faulthandler, signal, time
        faulthandler.register(signal.SIGUSR1, file=open('stacks', 'w'))
        def hangs_here(): time.sleep(60)
        hangs_here()
    """
    ended = Supervised(tmp_path, code, "--deadline", "0.7").end()
    assert stable(ended) == an_end(signal=signal.SIGTERM, reason="deadline", stacks=True)
    assert "in hangs_here" in (tmp_path / "stacks").read_text()


def test_a_trial_without_a_handler_is_not_ended_by_asking_for_stacks(tmp_path: Path) -> None:
    ended = Supervised(tmp_path, ENDLESS, "--deadline", "0.3").end()
    assert stable(ended) == an_end(signal=signal.SIGTERM, reason="deadline", stacks=False)


def test_a_stopped_trial_still_writes_its_stacks_at_the_deadline(tmp_path: Path) -> None:
    code = """
        import faulthandler, os, signal
        faulthandler.register(signal.SIGUSR1, file=open('stacks', 'w'))
        os.kill(os.getpid(), signal.SIGSTOP)
        signal.pause()
    """
    ended = Supervised(tmp_path, code, "--deadline", "0.7").end()
    assert stable(ended) == an_end(signal=signal.SIGTERM, reason="deadline", stacks=True)
    assert "File" in (tmp_path / "stacks").read_text()


def test_a_child_that_ignores_sigterm_forks_twice_and_leaves_its_session_is_ended(tmp_path: Path) -> None:
    trial = Supervised(tmp_path, ESCAPED, "--grace", "0.4")
    trial.ready()
    trial.process.terminate()
    assert stable(trial.end()) == an_end(signal=signal.SIGKILL, reason="asked")


def test_a_second_signal_skips_the_grace(tmp_path: Path) -> None:
    trial = Supervised(tmp_path, STUBBORN, "--grace", "60")
    trial.ready()
    trial.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    trial.process.send_signal(signal.SIGINT)
    assert stable(trial.end(2)) == an_end(signal=signal.SIGKILL, reason="asked")


def test_a_deadline_can_be_pushed_back(tmp_path: Path) -> None:
    trial = Supervised(tmp_path, "import time; time.sleep(1); print('whole')", "--deadline", "0.6")
    trial.order("deadline 30\n")
    assert stable(trial.end()) == an_end(exit_code=0)
    assert (tmp_path / "out").read_text() == "whole\n"


def test_a_deadline_can_be_brought_forward(tmp_path: Path) -> None:
    trial = Supervised(tmp_path, STUBBORN, "--grace", "0.1")
    trial.ready()
    trial.order("deadl")
    trial.order("ine 0.1\n")
    assert stable(trial.end()) == an_end(signal=signal.SIGKILL, reason="deadline")


def test_an_order_that_is_not_understood_changes_nothing(tmp_path: Path) -> None:
    trial = Supervised(tmp_path, "import time; time.sleep(0.3)")
    trial.order("deadline soon\ndeadline nan\nstop\n")
    assert stable(trial.end()) == an_end(exit_code=0)


def test_an_order_to_kill_asks_for_stacks(tmp_path: Path) -> None:
    code = "import faulthandler\nfaulthandler.register(10, file=open('stacks', 'w'))\nopen('ready', 'w')\n"
    trial = Supervised(tmp_path, code + ENDLESS)
    trial.ready()
    trial.order("kill\n")
    assert stable(trial.end()) == an_end(signal=signal.SIGTERM, reason="asked", stacks=True)


def test_the_end_of_the_orders_means_that_the_tuner_is_gone(tmp_path: Path) -> None:
    trial = Supervised(tmp_path, f"open('ready', 'w')\n{ENDLESS}")
    trial.ready()
    os.close(trial.control)
    trial.control = os.open(os.devnull, os.O_RDONLY)
    assert stable(trial.end()) == an_end(signal=signal.SIGTERM, reason="parent_gone")


def test_nothing_starts_for_a_parent_that_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", supervise.__file__, "--parent", "1", "--stdout", "out"]
    command += ["--stderr", "err", "--status-fd", "1", "--", "touch", "started"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=5, check=False)
    assert Ended(**json.loads(told.stdout)) == Ended(None, None, 0, False, 0, "parent_gone", False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["err", "out"]


A_TUNER = """
import os, subprocess, sys, time
from advisor.tuners import supervise
supervise.become_subreaper()
command = [sys.executable, "-I", "-S", supervise.__file__, "--parent", str(os.getpid())]
command += ["--stdout", "out", "--stderr", "err", "--", sys.executable, "-c", sys.argv[1]]
supervisor = subprocess.Popen(command, start_new_session=True)
print(supervisor.pid, flush=True)
supervisor.wait()
left = supervise.kill_tree(os.getpid(), 0.2)
print(supervisor.returncode, left, supervise.descendants(os.getpid()), flush=True)
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
def test_a_killed_tuner_leaves_nothing_within_five_seconds(tmp_path: Path, no_process_remains: str) -> None:
    tuner, _ = a_tuner(tmp_path, ESCAPED)
    assert len(marked(no_process_remains)) == 4
    with tuner:
        tuner.kill()
    assert until(lambda: not marked(no_process_remains)) < 5


def test_a_killed_supervisor_takes_the_trial_along_and_the_tuner_ends_the_rest(tmp_path: Path) -> None:
    tuner, supervisor = a_tuner(tmp_path, ESCAPED)
    os.kill(supervisor, signal.SIGKILL)
    told, _ = tuner.communicate(timeout=5)
    assert told == "-9 0 []\n"


def test_a_tree_is_killed_but_for_what_is_spared(tmp_path: Path) -> None:
    code = f"""
        import os, subprocess, sys
        from advisor.tuners.supervise import become_subreaper, descendants, kill_tree
        def start(*command): return subprocess.Popen(command, start_new_session=True)
        def wait_for(name):
            while not os.path.exists(name): pass
        become_subreaper()
        spared = start('sleep', '60')
        other = start('sh', '-c', '"$0" -c "$1" & wait', sys.executable, {STUBBORN!r})
        wait_for('ready')
        assert len(descendants(other.pid)) == 1
        assert kill_tree(other.pid, 0.1) == 0
        assert descendants(os.getpid()) == [spared.pid, other.pid], descendants(os.getpid())
        assert other.wait() == -15
        os.remove('ready')
        start(sys.executable, '-c', {ESCAPED!r})
        wait_for('ready')
        assert kill_tree(os.getpid(), 0.1, spare=[spared.pid]) == 0
        assert descendants(os.getpid()) == [spared.pid] and spared.poll() is None
        assert kill_tree(spared.pid) == 0 and spared.wait() == -15
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, timeout=5, check=False)
    assert ran.returncode == 0


def test_long_output_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.buffer.write(b'begin' + bytes(range(256)) * 40 + b'end')"
    assert stable(Supervised(tmp_path, code, "--cap", "100").end()) == an_end(exit_code=0)
    whole = b"begin" + bytes(range(256)) * 40 + b"end"
    cut = b"\n[... %d bytes cut ...]\n" % (len(whole) - 200)
    assert (tmp_path / "out").read_bytes() == whole[:100] + cut + whole[-100:]


@pytest.mark.slow
def test_two_hundred_megabytes_with_a_line_of_fifty_need_no_memory(tmp_path: Path) -> None:
    code = """
        import sys
        out = sys.stdout.buffer
        out.write(b'x' * 50_000_000)
        for _ in range(150): out.write(b'\\xff\\x00y' * 333_333 + b'\\n')
        out.flush()
        print('ready', file=sys.stderr, flush=True)
        sys.stdin.read()
        import time; time.sleep(0.3)
    """
    trial = Supervised(tmp_path, code)
    until(lambda: (tmp_path / "err").exists() and (tmp_path / "err").read_text() == "ready\n", 10)
    assert psutil.Process(trial.process.pid).memory_info().rss < 40_000_000
    assert stable(trial.end()) == an_end(exit_code=0)
    kept = (tmp_path / "out").read_bytes()
    assert re.findall(rb"\[\.\.\. (\d+) bytes cut", kept) == [b"198000000"]
    assert kept.endswith(b"\xff\x00y\n") and len(kept) < 2_000_100


def test_one_file_for_both_streams_keeps_their_order(tmp_path: Path) -> None:
    code = "import os\nfor i in range(4): os.write(1 + i % 2, b'%d' % i)"
    trial = Supervised(tmp_path, code, "--stderr", str(tmp_path / "out"))
    assert stable(trial.end()) == an_end(exit_code=0)
    assert (tmp_path / "out").read_text() == "0123"


def test_a_full_disk_loses_output_but_not_the_trial(tmp_path: Path) -> None:
    trial = Supervised(tmp_path, "print('x' * 3_000_000); open('end', 'w')", "--stdout", "/dev/full")
    assert stable(trial.end()) == an_end(exit_code=0)
    assert (tmp_path / "end").exists()


def test_supervising_costs_next_to_no_cpu_time(tmp_path: Path) -> None:
    code = "import time\nfor i in range(100): print(i, flush=True); time.sleep(0.01)\n"
    code += f"open('ready', 'w')\n{ENDLESS}"
    trial = Supervised(tmp_path, code)
    until((tmp_path / "out").exists)
    before = sum(psutil.Process(trial.process.pid).cpu_times()[:2])
    trial.ready()
    after = sum(psutil.Process(trial.process.pid).cpu_times()[:2])
    trial.process.terminate()
    assert stable(trial.end()) == an_end(signal=signal.SIGTERM, reason="asked")
    assert after - before <= 0.05


def test_the_highest_memory_of_the_trial_is_reported(tmp_path: Path) -> None:
    ended = Supervised(tmp_path, "x = bytearray(100_000_000); x[::4096] = b'1' * len(x[::4096])").end()
    assert 100_000_000 < ended.peak_rss_bytes < 150_000_000


A_WARM_PARENT = """
import os, sys
from pathlib import Path
from advisor.tuners import supervise

def trial():
    print("from the trial")
    {body}

mother = os.getpid()
if (pid := os.fork()) == 0:
    supervise.guard(trial, parent=mother, stdout=Path("out"), stderr=Path("err"), status_fd=1)
os.waitpid(pid, 0)
"""


@pytest.mark.parametrize(
    ("body", "end", "last_line"),
    [
        ("return", {"exit_code": 0}, ""),
        ("return 3", {"exit_code": 3}, ""),
        ("sys.exit(4)", {"exit_code": 4}, ""),
        ("sys.exit('no data')", {"exit_code": 1}, "no data"),
        ("raise ValueError('no')", {"exit_code": 1}, "ValueError: no"),
        ("os.kill(os.getpid(), 9)", {"signal": 9}, ""),
    ],
)
def test_a_forked_function_is_supervised_alike(
    tmp_path: Path, body: str, end: dict[str, object], last_line: str
) -> None:
    told = subprocess.run(
        [sys.executable, "-c", A_WARM_PARENT.format(body=body)], cwd=tmp_path, capture_output=True, timeout=5
    )
    assert stable(Ended(**json.loads(told.stdout))) == an_end(**end)
    assert (tmp_path / "err").read_text().strip().rpartition("\n")[2] == last_line
    if "signal" not in end:
        assert (tmp_path / "out").read_text() == "from the trial\n"


def test_a_forked_trial_dies_with_its_warm_parent(tmp_path: Path, no_process_remains: str) -> None:
    body = "open('ready', 'w')\n    while True: pass"
    mother = subprocess.Popen([sys.executable, "-c", A_WARM_PARENT.format(body=body)], cwd=tmp_path)
    until((tmp_path / "ready").exists)
    mother.kill()
    mother.wait()
    assert until(lambda: not marked(no_process_remains)) < 2
