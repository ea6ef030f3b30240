"""A trial ends when it should, what it did is told, and nothing of it is left."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
from supervised import ENDLESS, ESCAPED, STUBBORN, SUPERVISE, Supervised, an_end, marked, stable, until

from advisor.tuners.supervision.ended import Ended

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl"),
    pytest.mark.usefixtures("no_process_remains"),
]


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
    command = [*SUPERVISE, "--parent", str(os.getpid())]
    command += ["--stdout", "out", "--stderr", "err", "--pass-fd", str(write), "--"]
    subprocess.run(
        [*command, sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        pass_fds=[write],
        timeout=60,
        check=True,
    )
    os.close(write)
    with open(read) as told:
        assert told.read().split() == ["0", "1", "2", str(write)]


def test_what_a_finished_trial_leaves_is_killed_and_counted(tmp_path: Path) -> None:
    trial = Supervised(
        tmp_path, ESCAPED.replace(ENDLESS, "while not os.path.exists('ready'): pass\nos._exit(0)")
    )
    assert stable(trial.end()) == an_end(exit_code=0, left=1)


def test_workers_that_outlive_the_exit_of_the_trial_are_ended(tmp_path: Path) -> None:
    code = """
        import multiprocessing, os, time
        workers = [multiprocessing.Process(target=time.sleep, args=(60,)) for _ in range(3)]
        for worker in workers: worker.start()
        os._exit(0)
    """
    assert stable(Supervised(tmp_path, code).end()) == an_end(exit_code=0, left=3)


def test_a_leftover_that_holds_the_output_open_is_not_waited_for(tmp_path: Path) -> None:
    code = "import os, signal, time\nsignal.signal(15, signal.SIG_IGN)\nif os.fork() == 0: time.sleep(600)\n"
    trial = Supervised(tmp_path, code + "print('done', time.monotonic(), flush=True)\nos._exit(0)")
    assert stable(trial.end()) == an_end(exit_code=0, left=1)
    word, when = (tmp_path / "out").read_text().split()
    assert word == "done" and time.monotonic() - float(when) < 60


def test_a_deadline_asks_for_stacks_first(tmp_path: Path) -> None:
    code = """
        import faulthandler, signal, time
        faulthandler.register(signal.SIGUSR1, file=open('stacks', 'w'))
        def hangs_here(): open('ready', 'w'); time.sleep(600)
        hangs_here()
    """
    trial = Supervised(tmp_path, code)
    trial.ready()
    trial.order("deadline 0.1\n")
    assert stable(trial.end()) == an_end(signal=signal.SIGTERM, reason="deadline", stacks=True)
    assert "in hangs_here" in (tmp_path / "stacks").read_text()


def test_a_trial_without_a_handler_is_not_ended_by_asking_for_stacks(tmp_path: Path) -> None:
    ended = Supervised(tmp_path, ENDLESS, "--deadline", "0.3").end()
    assert stable(ended) == an_end(signal=signal.SIGTERM, reason="deadline", stacks=False)


def test_a_stopped_trial_still_writes_its_stacks_at_the_deadline(tmp_path: Path) -> None:
    code = """
        import faulthandler, os, signal
        faulthandler.register(signal.SIGUSR1, file=open('stacks', 'w'))
        open('ready', 'w')
        os.kill(os.getpid(), signal.SIGSTOP)
        signal.pause()
    """
    trial = Supervised(tmp_path, code)
    trial.ready()
    trial.order("deadline 0.1\n")
    assert stable(trial.end()) == an_end(signal=signal.SIGTERM, reason="deadline", stacks=True)
    assert "File" in (tmp_path / "stacks").read_text()


def test_a_child_that_ignores_sigterm_forks_twice_and_leaves_its_session_is_ended(tmp_path: Path) -> None:
    trial = Supervised(tmp_path, ESCAPED, "--grace", "0.4")
    trial.ready()
    trial.process.terminate()
    assert stable(trial.end()) == an_end(signal=signal.SIGKILL, reason="asked")


def asked_again(trial: Supervised) -> bool:
    """Whether it has ended; signals that come too soon after each other are one."""
    trial.process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    return trial.process.poll() is not None


def test_a_second_signal_skips_the_grace(tmp_path: Path) -> None:
    trial = Supervised(tmp_path, STUBBORN, "--grace", "600")
    trial.ready()
    trial.process.send_signal(signal.SIGINT)
    until(lambda: asked_again(trial))
    assert stable(trial.end()) == an_end(signal=signal.SIGKILL, reason="asked")


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
    command = [*SUPERVISE, "--parent", "1", "--stdout", "out"]
    command += ["--stderr", "err", "--status-fd", "1", "--", "touch", "started"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert Ended(**json.loads(told.stdout)) == Ended(None, None, 0, False, 0, "parent_gone", False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["err", "out"]


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
from advisor.tuners.supervision import supervise

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
        [sys.executable, "-c", A_WARM_PARENT.format(body=body)], cwd=tmp_path, capture_output=True, timeout=60
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
    until(lambda: not marked(no_process_remains))
