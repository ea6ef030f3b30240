"""Ranks on other machines: they come over the net with a token, and nothing of them stays behind.

The other machine is this one, without the folder in which ranks of the tuner's own machine meet it, and
outside of what the supervisor of the command sees and ends.
"""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from launched_commands import Owner, a_program, failure_of, launched, sessions_of, sessions_of_ranks, silent
from supervised import marked, until

from advisor.tuners.launching.exec_launch import ExecLaunch
from advisor.tuners.launching.meeting import NO_RANK_HERE, VARIABLE, DistantChannel, Meeting
from advisor.tuners.launching.rank_group import RankGroup
from advisor.tuners.supervision.failures import Failure, TrialFailed, line_lost
from advisor.tuners.supervision.isolation import Coverage
from advisor.tuners.trial.channel import Channel, ChannelClosed
from advisor.tuners.trial.messages import Facts, Failed, Phase, TellFacts, TrialOutcome
from advisor.tuners.trial.spec import Guard, Target, TrialSpec

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl"),
    pytest.mark.usefixtures("caretakers_have_ended"),
]

BOTH = """
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$ADVISOR_PORT  # --master-addr 127.0.0.1
RANK=1 LOCAL_WORLD_SIZE=1 env -u ADVISOR_ARMING {more} env -0 > asked && mv asked far
RANK=0 LOCAL_WORLD_SIZE=1 python train.py
"""


@pytest.fixture
def caretakers_have_ended(no_process_remains: str) -> Iterator[None]:
    """Who looks after a rank takes its folder away, and has a last moment of its own after that."""
    yield
    until(lambda: not marked(no_process_remains))


def two_machines(folder: Path, more: str = "") -> tuple[str, ...]:
    """A command whose second rank is on another machine, where its environment has ``more``."""
    (folder / "both.sh").write_text(BOTH.format(more=more))
    return ("sh", "both.sh")


@contextmanager
def everywhere(
    folder: Path, command: tuple[str, ...], asked: Mapping[str, str] | None = None
) -> Iterator[ExecLaunch]:
    """A command whose ranks on all machines are wanted; folders of theirs are made in ``folder``."""
    is_over = threading.Event()
    other = threading.Thread(target=other_machine, args=(folder, is_over))
    other.start()
    try:
        with launched(folder, command, {"TMPDIR": str(folder)}, asked or {}) as launch:
            yield launch
    finally:
        is_over.set()
        other.join()


def other_machine(folder: Path, is_over: threading.Event) -> None:
    """Start ``train.py`` with the environment that the file ``far`` holds, as soon as it is there."""
    while not (folder / "far").exists():
        if is_over.wait(0.01):
            return
    lines = (folder / "far").read_text().split("\0")
    environment = dict(line.split("=", 1) for line in lines if line)
    with subprocess.Popen(["python", "train.py"], cwd=folder, env=environment):
        pass  # whoever looks after it ends it


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
    with everywhere(tmp_path, two_machines(tmp_path)) as launch:
        token = told(launch)["token"]
        sessions = sessions_of(launch, Owner())
        assert [session.spec.host for session in sessions] == ["", socket.gethostname()]
        assert [session.spec.place.rank for session in sessions] == [0, 1]
        assert left_over(tmp_path) == [Path(sessions[1].spec.folder)]
        group = RankGroup(sessions)
        assert group.first_step() > 0
        assert len(group.slot(5, drop=1, config={"optimizer_implementation": "fused"}).step_s) == 5
        assert len(group.last.ranks) == 2
        assert len(group.ask(TellFacts(), Facts, 60.0).ranks) == 2
        outcome = group.stop()
    assert (outcome.state, outcome.failure) == ("stopped", None)
    for session in sessions:
        left = TrialOutcome.read(session.folder / "outcome.json")
        assert left is not None and (left.steps, left.applied) == (7, ("optimizer_implementation",))
        assert token not in (session.folder / "trial.json").read_text()
    assert set((tmp_path / "trial" / "stdout.log").read_text().splitlines()) == {"[None, None, None]"}
    until(lambda: not left_over(tmp_path))


@pytest.mark.long
@pytest.mark.slow
def test_a_rank_on_another_machine_that_is_killed_ends_the_others_and_is_named(tmp_path: Path) -> None:
    a_program(tmp_path)
    with everywhere(tmp_path, two_machines(tmp_path)) as launch:
        ranks = launch.ranks(60.0, silent)
        group = RankGroup(sessions_of_ranks(ranks))
        group.first_step()
        os.kill(ranks[1].pid, signal.SIGKILL)
        with pytest.raises(TrialFailed) as raised:
            group.slot(100_000)
        assert raised.value.failure.cause == "killed"
        host = socket.gethostname()  # whose shell may have asked for the end before we look
        ways = (
            f"ended on {host} by SIGKILL from outside",
            f"its process on {host} is gone, without a result",
        )
        assert raised.value.failure.message in [f"rank 1: {way}" for way in ways]
        until(lambda: not any(psutil.pid_exists(rank.pid) for rank in ranks))
    until(lambda: not left_over(tmp_path))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", "the launcher does not hand on MARK to "),
        pytest.param(
            "PYTHONPATH=",
            "only 1 of 2 ranks had started, and none of another machine: there ADVISOR_MEETING",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_setting_that_does_not_reach_all_ranks_fails_with_the_reason(
    tmp_path: Path, more: str, expected: str
) -> None:
    a_program(tmp_path)
    waiting = (
        "import os, time\nwhile os.environ['RANK'] == '0' or not os.path.exists('over'): time.sleep(0.01)\n"
    )
    (tmp_path / "train.py").write_text(waiting)
    with everywhere(tmp_path, two_machines(tmp_path, more), {"MARK": "1"}) as launch:
        if more:
            assert expected in failure_of(launch, limit_s=10.0).message
            (tmp_path / "over").touch()
            return
        far = sessions_of(launch, Owner())[1]
        with pytest.raises(TrialFailed) as raised:
            far.first_step()
        assert raised.value.failure.cause == "not_applied"
        assert raised.value.failure.message.startswith(expected)
    until(lambda: not left_over(tmp_path))


def test_a_tuner_that_cannot_be_reached_is_told_by_the_other_machine(tmp_path: Path) -> None:
    a_program(tmp_path)
    (tmp_path / "train.py").write_text("")
    nowhere = {"at": ["nowhere.invalid", 1], "token": "", "wanted": {"file": str(tmp_path / "train.py")}}
    variable = base64.urlsafe_b64encode(json.dumps(nowhere).encode()).decode()
    command = f"env -u ADVISOR_ARMING {VARIABLE}={variable} python train.py # $ADVISOR_PORT"
    with everywhere(tmp_path, ("sh", "-c", command)) as launch:
        message = failure_of(launch).message
    assert f"{socket.gethostname()} does not reach the tuner at nowhere.invalid, port 1: " in message


def test_a_command_without_a_rank_on_this_machine_is_refused(tmp_path: Path) -> None:
    a_program(tmp_path)
    script = ": --master-addr 127.0.0.1; env -u ADVISOR_ARMING python train.py # $ADVISOR_PORT"
    apart = f"trap '' TERM; {script}"  # no signal comes from another machine
    with everywhere(tmp_path, ("sh", "-c", apart)) as launch:
        assert failure_of(launch) == Failure("environment", NO_RANK_HERE)
    until(lambda: not left_over(tmp_path))


def test_whoever_comes_without_the_token_is_sent_away(tmp_path: Path) -> None:
    a_program(tmp_path)
    with everywhere(tmp_path, ("sh", "-c", "sleep 60 # $ADVISOR_PORT python train.py")) as launch:
        strangers = []
        for token in ("", told(launch)["token"][:-1] + "!"):
            stranger = socket.create_connection(tuple(told(launch)["at"]))
            hello = {
                "message": "Hello",
                "pid": 1,
                "kind": "script",
                "name": "train.py",
                "file": "",
                "args": [],
            }
            line = json.dumps({**hello, "cwd": "/", "variables": {}, "token": token, "folder": "/x"})
            stranger.sendall(line.encode() + b"\n")
            strangers.append(stranger)
        assert failure_of(launch, limit_s=1.0).message.startswith("the command did not start train.py")
        for stranger in strangers:
            stranger.settimeout(60)
            assert stranger.recv(1) == b""
            stranger.close()


@pytest.mark.parametrize("is_killed", [False, True])
def test_who_looks_after_a_rank_ends_it_with_its_line_or_tells_its_end(
    tmp_path: Path, is_killed: bool
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    made = tmp_path / "made"
    body = (
        "import json, socket, sys, time; from advisor.tuners.trial import caretaker, spec\n"
        "caretaker.attend(socket.socket(fileno=int(sys.argv[1])), spec.TrialSpec.of(sys.argv[2]))\n"
        "print(1, flush=True); time.sleep(60)"
    )
    there = str(tmp_path / "there")
    guard = Guard(Coverage(()), (there,), f"{there}/created")
    spec = TrialSpec(0, Target("exec", "x"), there, host="far", guard=guard)
    made.touch()
    Path(guard.created).write_text(json.dumps(str(made)) + "\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours = DistantChannel(server.accept()[0], tmp_path / "here")
    command = [sys.executable, "-c", body, str(theirs.fileno()), spec.text]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE) as process:
        theirs.close()
        assert process.stdout is not None and process.stdout.read(2) == b"1\n"
        if is_killed:
            process.send_signal(signal.SIGSEGV)
            said = ours.receive(60.0)
            assert isinstance(said, Failed)
            assert said.failure == Failure("crash_signal", "ended on far by SIGSEGV")
        ours.close()
        assert process.wait(timeout=60) == (-signal.SIGSEGV if is_killed else -signal.SIGTERM)
        until(lambda: not Path(there).exists())
    assert not made.exists()


def test_what_comes_over_the_line_is_kept_here(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = Channel(socket.create_connection(server.getsockname()))
        ours = DistantChannel(server.accept()[0], tmp_path)
    theirs.send(Phase("start", 4711))
    assert ours.receive(60.0) == Phase("start", -1)
    theirs.send(TrialOutcome("stopped", steps=3))
    assert ours.receive(60.0) == TrialOutcome.read(tmp_path / "outcome.json")
    theirs.close()
    with pytest.raises(ChannelClosed):
        ours.receive(60.0)
    ours.close()


def test_a_line_that_breaks_names_the_machine(tmp_path: Path) -> None:
    assert line_lost("far").message == "the line to far broke: the machine, or the network to it, is gone"


def test_the_port_is_told_by_a_name_where_the_own_address_means_something_else_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for host, expected in (("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("node0", "node0")):
        monkeypatch.setattr(
            socket,
            "getaddrinfo",
            lambda *_, **__: [(socket.AF_INET, socket.SOCK_DGRAM, 0, "", ("127.0.0.1", 9))],
        )
        meeting = Meeting(host, {})
        try:
            assert meeting.address == expected
        finally:
            meeting.close()


def test_a_machine_without_an_address_is_named() -> None:
    with pytest.raises(TrialFailed, match=r"no address of this machine towards nowhere\.invalid: "):
        Meeting("nowhere.invalid", {})
