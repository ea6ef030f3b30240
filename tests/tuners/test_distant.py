"""Ranks on other machines: they come over the net with a token, and nothing of them stays behind.

The other machine is this one, without the folder in which ranks of the tuner's own machine meet it.
"""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from launched_commands import Owner, a_launch, a_program, failure_of, sessions_of, sessions_of_ranks, silent
from supervised import until

from advisor.tuners.distant import DistantChannel, Meeting, port_was_taken
from advisor.tuners.exec_launch import ExecLaunch
from advisor.tuners.failures import Failure, TrialFailed
from advisor.tuners.group import RankGroup
from advisor.tuners.launch import Launcher
from advisor.tuners.limits import Limits
from advisor.tuners.spec import Target

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl"),
    pytest.mark.usefixtures("no_process_remains"),
]

ELSEWHERE = "env -u ADVISOR_ARMING"
AGENT = (
    "torchrun --nnodes {machines} --nproc-per-node 1 --rdzv-backend c10d --local-addr 127.0.0.1 "
    "--rdzv-endpoint 127.0.0.1:$ADVISOR_PORT train.py"
)
TWO_MACHINES = f"{ELSEWHERE} {AGENT}&\n{AGENT}\nwait\n".replace("{machines}", "2")
ALONE_ELSEWHERE = (
    f"# $ADVISOR_PORT\ntrap '' TERM  # no signal comes from another machine\n{ELSEWHERE} python train.py\n"
)


def told(launch: ExecLaunch) -> dict[str, Any]:
    """What stands in the variable that ranks on other machines find."""
    assert launch.meeting is not None
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(launch.meeting.variable))
    return found


def left_over(folder: Path) -> list[Path]:
    """Folders of ranks on other machines, whose place for such is this one."""
    return list(folder.glob("advisor-rank-*"))


@pytest.mark.slow
def test_a_rank_on_another_machine_is_measured_with_those_of_this_one(tmp_path: Path) -> None:
    ours = '("ADVISOR_ARMING", "ADVISOR_MEETING", "PYTHONPATH")'
    a_program(tmp_path, f"os.write(1, f'{{[os.environ.get(n) for n in {ours}]}}\\n'.encode())")
    (tmp_path / "run.sh").write_text(TWO_MACHINES)
    with a_launch(tmp_path, "bash", "run.sh", TMPDIR=str(tmp_path)) as launch:
        token = told(launch)["token"]
        sessions = sessions_of(launch, Owner())
        assert [session.spec.distant for session in sessions] == [False, True]
        assert {session.spec.place.rank for session in sessions} == {0, 1}
        assert left_over(tmp_path) == [Path(sessions[1].spec.folder)]
        group = RankGroup(sessions)
        assert group.first_step() > 0
        assert len(group.slot(5, drop=1).step_s) == 5
        assert [message["distant"] for message in group.ask("facts", "facts", 60.0)["ranks"]] == [False, True]
        outcome = group.stop()
    assert (outcome["state"], outcome["failure"]) == ("stopped", None)
    for session in sessions:
        assert json.loads((session.folder / "outcome.json").read_text())["steps"] == 7
        assert token not in (session.folder / "trial.json").read_text()
    assert set((tmp_path / "trial" / "stdout.log").read_text().splitlines()) == {"[None, None, None]"}
    until(lambda: not left_over(tmp_path))


@pytest.mark.slow
def test_a_rank_on_another_machine_that_is_killed_ends_the_others(tmp_path: Path) -> None:
    a_program(tmp_path)
    (tmp_path / "run.sh").write_text(TWO_MACHINES)
    with a_launch(tmp_path, "bash", "run.sh", TMPDIR=str(tmp_path)) as launch:
        ranks = launch.ranks(60.0, silent)
        group = RankGroup(sessions_of_ranks(ranks))
        group.first_step()
        os.kill(next(rank.pid for rank in ranks if rank.spec.distant), signal.SIGKILL)
        with pytest.raises(TrialFailed):
            group.slot(50)
        until(lambda: not any(psutil.pid_exists(rank.pid) for rank in ranks))


@pytest.mark.slow
def test_a_command_without_a_rank_on_this_machine_is_refused(tmp_path: Path) -> None:
    a_program(tmp_path)
    (tmp_path / "run.sh").write_text(ALONE_ELSEWHERE)
    with a_launch(tmp_path, "bash", "run.sh", TMPDIR=str(tmp_path)) as launch:
        assert failure_of(launch) == Failure("environment", "no rank of the command trains on this machine")
    until(lambda: not left_over(tmp_path))


def test_whoever_comes_without_the_token_is_sent_away(tmp_path: Path) -> None:
    a_program(tmp_path)
    with a_launch(tmp_path, "sh", "-c", "sleep 60 # $ADVISOR_PORT python train.py") as launch:
        strangers = []
        for token in ("", told(launch)["token"][:-1] + "!"):
            stranger = socket.create_connection(tuple(told(launch)["at"]))
            hello: dict[str, Any] = {
                "event": "hello",
                "pid": 1,
                "kind": "script",
                "name": "train.py",
                "args": [],
                "token": token,
            }
            stranger.sendall(
                json.dumps({**hello, "cwd": "/", "variables": {}, "folder": "/x"}).encode() + b"\n"
            )
            strangers.append(stranger)
        message = failure_of(launch, limit_s=1.0).message
        assert message.startswith("the command did not start train.py")
        assert "ranks on other machines need ADVISOR_MEETING and PYTHONPATH in their environment" in message
        for stranger in strangers:
            stranger.settimeout(5)
            assert stranger.recv(1) == b""
            stranger.close()


@pytest.mark.slow
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
    warnings: list[str] = []
    target = Target("exec", "bash", ("run.sh",), str(tmp_path))
    (tmp_path / "study").mkdir(mode=0o700)
    limits = Limits(start_s=60.0, step_s=0.05)
    with Launcher(target, tmp_path / "study", limits=limits, warn=warnings.append) as launcher:
        if starts == 3:
            with pytest.raises(TrialFailed):
                launcher.start(0, {}, {})
        else:
            session = launcher.start(0, {}, {})
            assert session.first_step() > 0
            session.kill()
    assert (tmp_path / "starts").read_text().count("start") == min(starts + 1, 3)
    (warning,) = warnings
    assert warning.startswith("ranks on other machines report to ") and "networks that you trust" in warning


def test_a_public_address_is_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = Meeting("127.0.0.1", {})
    try:
        assert meeting.address == "127.0.0.1" and "public" not in meeting.warning()
        meeting.address = "1.1.1.1"
        assert "1.1.1.1, a public address, now to port " in meeting.warning()
    finally:
        meeting.close()


def test_a_machine_without_an_address_is_named() -> None:
    with pytest.raises(TrialFailed, match=r"no address of this machine towards nowhere\.invalid: "):
        Meeting("nowhere.invalid", {})


def test_a_rank_ends_with_the_line_to_its_tuner_and_takes_its_folder_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "rank"
    folder.mkdir()
    body = (
        "import socket, sys, time; from advisor.tuners import afar\n"
        "afar.end_with(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])\n"
        "print(1, flush=True); time.sleep(60)"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours = DistantChannel(server.accept()[0])
    command = [sys.executable, "-c", body, str(theirs.fileno()), str(folder)]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE) as process:
        theirs.close()
        assert process.stdout is not None and process.stdout.read(2) == b"1\n"
        ours.close()
        assert process.wait(timeout=10) == 1
    assert not folder.exists()


def test_what_torch_says_of_a_taken_port_is_known(tmp_path: Path) -> None:
    for text, expected in (
        ("The server socket has failed to bind (errno: 98 - Address already in use).", True),
        ("RuntimeError: EADDRINUSE", True),
        ("Connection refused", False),
    ):
        (tmp_path / "stderr.log").write_text(text)
        assert port_was_taken(tmp_path / "stderr.log") is expected
    assert not port_was_taken(tmp_path / "none.log")
