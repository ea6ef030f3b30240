"""Ranks that a launcher starts come to the tuner, are measured as others are, and leave nothing behind."""

import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from launched_commands import Owner, a_launch, a_program, failure_of, sessions_of, sessions_of_ranks, silent
from supervised import until

from advisor.base.errors import UsageError
from advisor.tuners.launching.exec_launch import ARMING, NO_PROGRAM
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.meeting import port_was_taken
from advisor.tuners.launching.rank_group import RankGroup
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.supervision.limits import Limits
from advisor.tuners.trial.spec import Target

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl"),
    pytest.mark.usefixtures("no_process_remains"),
]

RANKS = ("torchrun", "--nproc-per-node", "2")


def test_a_command_that_starts_no_python_is_told(tmp_path: Path) -> None:
    with a_launch(tmp_path, "sh", "-c", "exit 0") as launch:
        assert failure_of(launch) == Failure("user_error", NO_PROGRAM)


def test_the_last_words_of_a_command_that_fails_before_are_told(tmp_path: Path) -> None:
    with a_launch(tmp_path, "sh", "-c", "echo no data here >&2; exit 3") as launch:
        assert failure_of(launch) == Failure("user_error", f"{NO_PROGRAM} (exit status 3: no data here)")


def test_a_command_that_cannot_start_is_named(tmp_path: Path) -> None:
    with a_launch(tmp_path, "no-such-launcher") as launch:
        failure = failure_of(launch)
    assert failure.cause == "environment"
    assert "no-such-launcher: No such file or directory" in failure.message


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    a_program(tmp_path)
    with a_launch(tmp_path, "sh", "-c", "sleep 60; python train.py") as launch:
        failure = failure_of(launch, limit_s=0.3)
    assert failure.cause == "timeout"
    assert failure.message.startswith("the command did not start train.py in ")


def test_a_rank_that_never_comes_is_waited_for_until_the_deadline(tmp_path: Path) -> None:
    a_program(tmp_path)
    with a_launch(tmp_path, sys.executable, "train.py", RANK="0", WORLD_SIZE="2") as launch:
        failure = failure_of(launch, limit_s=1.0)
    assert failure.cause == "timeout"
    assert failure.message.startswith("only 1 of 2 ranks had started in ")


def test_ranks_that_would_be_restarted_are_refused(tmp_path: Path) -> None:
    a_program(tmp_path)
    variables = {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_MAX_RESTARTS": "3"}
    with (
        a_launch(tmp_path, sys.executable, "train.py", **variables) as launch,
        pytest.raises(UsageError, match=r"restarts failed ranks \(3 times\)"),
    ):
        launch.ranks(30.0, silent)


def test_ranks_on_other_machines_that_nobody_spoke_of_are_refused(tmp_path: Path) -> None:
    a_program(tmp_path)
    variables = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    with a_launch(tmp_path, sys.executable, "train.py", **variables) as launch:
        failure = failure_of(launch)
    assert failure.cause == "environment"
    assert "of 4 ranks not all are on this machine" in failure.message


@pytest.mark.slow
def test_ranks_of_torchrun_are_measured_one_by_one(tmp_path: Path) -> None:
    told = 'f\'{os.environ.get("ADVISOR_ARMING")} {os.environ.get("PYTHONPATH")}\\n\'.encode()'
    a_program(tmp_path, f"os.write(1, {told})")  # a line in one piece, beside the other rank's
    owner = Owner()
    with a_launch(tmp_path, *RANKS, "train.py", "--lr", "1") as launch:
        sessions = sessions_of(launch, owner)
        assert [session.spec.place.rank for session in sessions] == [0, 1]
        assert launch.target == Target("script", "train.py", ("--lr", "1"), str(tmp_path.resolve()))
        group = RankGroup(sessions)
        assert group.first_step() > 0
        assert len(group.slot(5, drop=1).step_s) == 5
        outcome = group.stop()
    assert (outcome.state, outcome.failure) == ("stopped", None)
    assert all(
        json.loads((session.folder / "outcome.json").read_text())["steps"] == 7 for session in sessions
    )
    assert set((tmp_path / "trial" / "stdout.log").read_text().splitlines()) == {"None None"}
    assert owner.forgotten == sessions


@pytest.mark.long
@pytest.mark.slow
def test_a_program_before_the_target_of_a_shell_script_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "prepare.py").write_text(
        "import atexit\natexit.register(lambda: open('prepared', 'w').write('at its end'))\n"
    )
    a_program(tmp_path, steps=4)
    (tmp_path / "run.sh").write_text("set -e\npython prepare.py\ntest -f prepared\npython train.py\n")
    with a_launch(tmp_path, "bash", "run.sh") as launch:
        (session,) = sessions_of(launch, Owner())
        session.first_step()
        with pytest.raises(SessionEnded) as ended:
            session.slot(10)
    assert (ended.value.outcome.state, ended.value.outcome.steps) == ("ended", 4)
    assert (tmp_path / "prepared").read_text() == "at its end"


@pytest.mark.long
def test_a_rank_that_is_killed_ends_the_others(tmp_path: Path) -> None:
    a_program(tmp_path)
    with a_launch(tmp_path, *RANKS, "train.py") as launch:
        ranks = launch.ranks(60.0, silent)
        sessions = sessions_of_ranks(ranks)
        for session in sessions:
            session.first_step()
        os.kill(ranks[1].pid, signal.SIGKILL)
        with pytest.raises(TrialFailed):
            sessions[1].slot(5)
        with pytest.raises(TrialFailed):
            sessions[0].slot(5)
        assert not any(psutil.pid_exists(rank.pid) for rank in ranks)


@pytest.mark.long
def test_a_session_that_is_killed_ends_the_whole_command(tmp_path: Path) -> None:
    a_program(tmp_path)
    with a_launch(tmp_path, *RANKS, "train.py") as launch:
        sessions = sessions_of(launch, Owner())
        sessions[0].first_step()
        sessions[0].kill()
        until(lambda: not psutil.pid_exists(launch.supervisor))
        sessions[1].kill()


@pytest.mark.slow
def test_a_python_that_cannot_load_the_tuner_says_so(tmp_path: Path) -> None:
    a_program(tmp_path)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "advisor.py").write_text("raise ImportError('not this one')\n")
    path = f"PYTHONPATH={ARMING}:{broken}"
    with a_launch(tmp_path, "env", path, sys.executable, "train.py") as launch:
        (session,) = sessions_of(launch, Owner())
        with pytest.raises(TrialFailed) as raised:
            session.first_step()
    assert raised.value.failure.cause == "environment"
    assert "cannot load advisor: " in raised.value.failure.message


@pytest.mark.long
def test_of_several_machines_the_ranks_of_this_one_are_measured(tmp_path: Path) -> None:
    a_program(tmp_path, "pass  # as one of two machines would run it")
    (tmp_path / "train.py").write_text((tmp_path / "train.py").read_text().replace('"RANK" in', '"NONE" in'))
    both = "RANK=2 python train.py & RANK=3 python train.py & wait # $ADVISOR_PORT"
    variables = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    with a_launch(tmp_path, "sh", "-c", both, **variables) as launch:
        sessions = sessions_of(launch, Owner())
        assert [session.spec.place.rank for session in sessions] == [2, 3]
        group = RankGroup(sessions)
        assert group.first_step() > 0
        assert len(group.slot(3, drop=1).step_s) == 3
        assert group.stop().state == "stopped"


@pytest.mark.long
@pytest.mark.parametrize("starts", [1, 3])
def test_a_port_that_is_taken_is_another_one_at_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: int
) -> None:
    a_program(tmp_path)
    holds = "import os, socket, time; s = socket.create_server(('', int(os.environ['ADVISOR_PORT'])))"
    (tmp_path / "run.sh").write_text(
        f"echo start >> starts\nif [ $(wc -l < starts) -le {starts} ]; then\n"
        f"  python -c \"{holds}; open('held', 'w').close(); time.sleep(60)\" &\n"
        "  until [ -e held ]; do sleep 0.05; done; rm held\nfi\n"
        "torchrun --nnodes 1 --node-rank 0 --master-addr 127.0.0.1 --master-port $ADVISOR_PORT train.py\n"
    )
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
    target = Target("exec", "bash", ("run.sh",), str(tmp_path))
    (tmp_path / "study").mkdir(mode=0o700)
    limits = Limits(start_s=60.0, step_s=0.05)
    with Launcher(target, tmp_path / "study", limits=limits) as launcher:
        if starts == 3:
            with pytest.raises(TrialFailed):
                launcher.start(0, {}, {})
        else:
            session = launcher.start(0, {}, {})
            assert session.first_step() > 0
            session.kill()
    assert (tmp_path / "starts").read_text().count("start") == min(starts + 1, 3)


def test_what_torch_says_of_a_taken_port_is_known(tmp_path: Path) -> None:
    for text, expected in (
        ("The server socket has failed to bind (errno: 98 - Address already in use).", True),
        ("RuntimeError: EADDRINUSE", True),
        ("Connection refused", False),
    ):
        (tmp_path / "stderr.log").write_text(text)
        assert port_was_taken(tmp_path / "stderr.log") is expected
    assert not port_was_taken(tmp_path / "none.log")
