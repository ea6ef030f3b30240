"""The tuner is asked to stop, or killed, while a trial runs: nothing lives on, nothing is lost."""

import os
import re
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import fault_oracle
import pytest
from injector import names
from toy import Toy

HOLD = "sleep:5@outcome.write.before#1"  # the first trial is at its end for that long
KILLED = -signal.SIGKILL


@pytest.fixture
def toy(tmp_path: Path, no_process_remains: str) -> Toy:
    return Toy(tmp_path / "toy", no_process_remains)


def wait_for_trial(toy: Toy) -> None:
    """Until the first trial has been measured and writes its outcome."""
    deadline = time.monotonic() + 60
    while "outcome.write.before" not in names(toy.log):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def still_open(toy: Toy) -> list[str]:
    """Trials that the database believes to run, ours and Optuna's."""
    with closing(sqlite3.connect(f"file:{toy.folder}/.advisor/studies.db?mode=ro", uri=True)) as database:
        ours = database.execute("select number from advisor_trials where not finished").fetchall()
        rows = database.execute("select number from trials where state in ('RUNNING', 'WAITING')").fetchall()
    return [f"ours {number}" for (number,) in ours] + [f"optuna {number}" for (number,) in rows]


def killed_once(toy: Toy) -> None:
    """One trial is killed, and resuming runs its configuration once more, as one of all."""
    before = fault_oracle.check(toy.folder, mark=toy.mark, code=0, scratch=True)
    assert [trial.cause for trial in before.trials.values() if trial.state == "failed"] == ["killed"]
    after = toy.resume()
    lost = next(trial.config for trial in after.trials.values() if trial.state == "failed")
    again = [trial for trial in after.trials.values() if trial.config == lost and trial.state == "complete"]
    assert len(after.configs) == 4 and len(again) == 1


@pytest.mark.faults
def test_a_tuner_killed_during_a_trial_leaves_it_to_be_run_once_more(toy: Toy) -> None:
    with toy.start(fault=HOLD) as tuner:
        wait_for_trial(toy)
        tuner.kill()
        tuner.communicate()
    killed_once(toy)


@pytest.mark.faults
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_tuner_asked_to_stop_says_how_to_go_on_and_leaves_nothing_running(
    number: signal.Signals, code: int, toy: Toy
) -> None:
    with toy.start(fault=HOLD) as tuner:
        wait_for_trial(toy)
        tuner.send_signal(number)
        out, err = tuner.communicate(timeout=60)
    assert tuner.returncode == code, out + err
    assert "--resume" in err
    assert still_open(toy) == []
    assert (toy.folder / "advisor-report" / "report.html").exists()
    killed_once(toy)


@contextmanager
def terminal(toy: Toy) -> Iterator[tuple[int, "subprocess.Popen[str]", list[bytes]]]:
    """The study in a terminal of its own; what it shows is collected."""
    master, slave = os.openpty()
    shown: list[bytes] = []

    def collect() -> None:
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other side, or this one, is closed
                return
            if not part:
                return
            shown.append(part)

    process = toy.start(fault=HOLD, terminal=slave)
    os.close(slave)
    reader = threading.Thread(target=collect, daemon=True)
    reader.start()
    try:
        yield master, process, shown
    finally:
        process.wait(60)
        reader.join(60)


@pytest.mark.faults
def test_a_ctrl_c_in_a_terminal_ends_the_study_with_a_summary(toy: Toy) -> None:
    with terminal(toy) as (keyboard, tuner, shown):
        wait_for_trial(toy)
        os.write(keyboard, b"\x03")
    os.close(keyboard)
    assert tuner.returncode == 130
    assert re.search(rb"Keep what you have|interrupted", b"".join(shown))
    assert still_open(toy) == []
    killed_once(toy)


@pytest.mark.faults
def test_two_ctrl_c_end_everything_at_once(toy: Toy) -> None:
    with terminal(toy) as (keyboard, tuner, _):
        wait_for_trial(toy)
        os.write(keyboard, b"\x03")
        time.sleep(0.2)
        os.write(keyboard, b"\x03")
    os.close(keyboard)
    assert tuner.returncode == 130
    fault_oracle.check(toy.folder, mark=toy.mark, code=130, scratch=True)
    assert len(toy.resume().configs) == 4


@pytest.mark.faults
def test_a_closed_terminal_ends_the_study_in_order(toy: Toy) -> None:
    with terminal(toy) as (keyboard, tuner, _):
        wait_for_trial(toy)
        os.close(keyboard)
    assert tuner.returncode == 143
    assert still_open(toy) == []
    killed_once(toy)


@pytest.mark.faults
def test_sigterm_and_then_sigkill_lose_nothing(toy: Toy) -> None:
    with toy.start(fault="sleep:5@result.before") as tuner:
        wait_for_trial(toy)
        tuner.terminate()
        time.sleep(1)
        tuner.kill()
        tuner.communicate()
    fault_oracle.check(toy.folder, mark=toy.mark, code=tuner.returncode, codes=(KILLED, 143), scratch=True)
    assert len(toy.resume().configs) == 4


@pytest.mark.faults
def test_a_stopped_tuner_goes_on_where_it_was(toy: Toy) -> None:
    with toy.start(fault=HOLD) as tuner:
        wait_for_trial(toy)
        tuner.send_signal(signal.SIGSTOP)
        time.sleep(3)
        tuner.send_signal(signal.SIGCONT)
        out, err = tuner.communicate(timeout=120)
    assert tuner.returncode == 0, out + err
    kept = fault_oracle.check(toy.folder, mark=toy.mark, code=0)
    assert len(kept.configs) == 4


@pytest.mark.faults
def test_a_killed_supervisor_costs_its_trial_alone(toy: Toy) -> None:
    with toy.start(fault=HOLD) as tuner:
        wait_for_trial(toy)
        for supervisor in fault_oracle.supervisors(toy.mark):
            supervisor.kill()
        out, err = tuner.communicate(timeout=120)
    assert tuner.returncode == 0, out + err
    kept = fault_oracle.check(toy.folder, mark=toy.mark, code=0)
    cut_off = [
        trial for trial in kept.trials.values() if "killed" in " ".join([*trial.marks, str(trial.cause)])
    ]
    assert 0 < len(cut_off) < len(kept.trials)
    assert all(trial.state == "complete" for trial in cut_off), (
        "what is cut off from outside is measured again"
    )
    assert len(toy.resume().configs) == 4
