"""A launcher's command (torchrun, accelerate, a shell script) as one trial, whose ranks come to the tuner.

The command runs unchanged below a supervisor, with a folder of ours on ``PYTHONPATH``: every Python it starts
reads ``arming/sitecustomize.py`` first, and those that run the target connect to the socket in a private
folder. From then on each of them is a trial like any other, with a channel of its own.
"""

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NoReturn

from advisor.base import errors
from advisor.tuners.launching.exec_command import (
    PORT_VARIABLE,
    find_wanted,
    restarting,
    several_machines,
)
from advisor.tuners.launching.meeting import NO_RANK_HERE, DistantChannel, Meeting, free_port
from advisor.tuners.launching.meeting import VARIABLE as MEETING_VARIABLE
from advisor.tuners.launching.relay import RankEnd, Relay
from advisor.tuners.place import Place
from advisor.tuners.supervision import supervise
from advisor.tuners.supervision.child_start import NO_COMMAND, NOT_ISOLATED
from advisor.tuners.supervision.ended import read_ended
from advisor.tuners.supervision.failures import Failure, TrialFailed, from_exit, read_tail
from advisor.tuners.supervision.isolation import Coverage
from advisor.tuners.trial.channel import Channel, ChannelClosed
from advisor.tuners.trial.launch_messages import Arm, Hello, Leave
from advisor.tuners.trial.spec import Guard, Target, TrialSpec

ARMING = Path(__file__).parents[1] / "trial" / "arming"
PACKAGE_PARENT = Path(errors.__file__).resolve().parents[2]
VARIABLE, WANTED, MEETING = "ADVISOR_ARMING", "wanted.json", "tuner"  # as in arming/sitecustomize.py
LAUNCHING = {"PET_STANDALONE": "1", "PET_MAX_RESTARTS": "0"}
"""torchrun's options by environment, also below accelerate and shell scripts: a free port, so that two trials
can run side by side, and no second try. On several machines the port stands in the command."""
RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
RANKS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
UNREACHED = "advisor: "  # as in arming/sitecustomize.py
TICK_S = 0.5
HELLO_S = 10.0  # between a connection and its first line
MOST_RANKS = 1024
NO_PROGRAM = "the command ended without starting a Python program that trains"

Waiting = Callable[[str, float], None]


@dataclass(frozen=True)
class Rank:
    """One process that trains, and what its session needs.

    Attributes:
        spec: What it was told; its place is its number among all, also those of other machines.
        folder: Its own.
        channel: Commands and answers.
        status: Tells how it ended.
        control: Ends it, and with it the whole command.
        pid: The process, which is no child of ours, and may be one of another machine.
    """

    spec: TrialSpec
    folder: Path
    channel: Channel
    status: int
    control: int
    pid: int


@dataclass(frozen=True)
class Arrived:
    """A rank that has come; from another machine with its name, and a folder there."""

    channel: Channel
    pid: int
    host: str = ""
    folder: str = ""


class ExecLaunch:
    """One run of a command under its supervisor.

    Of a command that spans several machines the ranks of this one come, and those of others run as they are,
    unless all are wanted: then those of others come over a port of this machine.

    Args:
        command: As the user typed it.
        spec: Of the trial; each rank that comes gets its own target, folder and place.
        environment: Of the command, without what arms it.
        isolating: Options of the supervisor that isolate what the command writes.
        held: Descriptors that the supervisor inherits, and the command does not.
        asked: What settings ask of the environment of every rank; ``None``: ranks of this machine suffice.
        guards: Ranks of other machines, where nothing isolates what they write, may change no file.

    Attributes:
        wanted: Which program of the command is to be measured.
        folder: Of the trial.
        has_port: The command spans several machines, whose ranks meet at a port that is chosen here.
        target: That program as it was started, once the first rank has come.

    Raises:
        TrialFailed: Nothing can be listened at (``environment``).
    """

    def __init__(
        self,
        command: Sequence[str],
        spec: TrialSpec,
        environment: Mapping[str, str],
        isolating: Sequence[str] = (),
        held: Sequence[int] = (),
        *,
        asked: Mapping[str, str] | None = None,
        guards: bool = False,
    ) -> None:
        cwd = Path(spec.target.cwd)
        self.wanted = find_wanted(command, cwd)
        self.target: Target | None = None
        self._spec = spec
        self._held = tuple(held)
        self._asked, self._guards = asked, guards
        self.meeting: Meeting | None = None
        self.folder = self._logs = Path(spec.folder)
        self._relay: Relay | None = None
        self._began = time.monotonic()
        self._arrived: dict[int, Arrived] = {}
        self._world = self._awaited = 0
        machines = several_machines(command, cwd)
        self.has_port = machines is not None
        self._control: int | None = None
        self._process: subprocess.Popen[bytes]
        self._private = Path(tempfile.mkdtemp(prefix="advisor-"))
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listen()
            more = dict(LAUNCHING)
            if machines is not None:
                port = free_port()
                command = machines.with_port(command, port)
                del more["PET_STANDALONE"]
                more[PORT_VARIABLE] = str(port)
                if asked is not None:
                    self.meeting = Meeting(machines.host, self._told())
                    more[MEETING_VARIABLE] = self.meeting.variable
            self._start(command, self._armed(environment, more), isolating)
        except BaseException:
            self._stop_listening()
            raise

    @property
    def supervisor(self) -> int:
        """Pid of the supervisor."""
        return self._process.pid

    def ranks(self, limit_s: float, waiting: Waiting) -> list[Rank]:
        """Wait until every rank has come that is measured; those of this machine first, by their numbers.

        Args:
            limit_s: Seconds since the start after which the command counts as stuck.
            waiting: Called meanwhile; may raise ``Interrupted``.

        Raises:
            TrialFailed: It ended before, or took too long; nothing of it is left.
            UsageError: It restarts failed ranks.
        """
        try:
            while not self._awaited or len(self._arrived) < self._awaited:
                self._next(limit_s, waiting)
            self._stop_listening()
            if all(arrived.host for arrived in self._arrived.values()):
                raise TrialFailed(Failure("environment", NO_RANK_HERE))
            return self._tell()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the command with everything that it started."""
        self._stop_listening()
        if self._relay is not None:
            self._relay.close()
            return
        for arrived in self._arrived.values():
            arrived.channel.close()
        if self._control is not None:
            os.close(self._control)
            self._control = None
            read_ended(self._status, supervise.LONGEST_END_S)
            os.close(self._status)
            self._process.wait()

    def _listen(self) -> None:
        try:
            self._listener.bind(str(self._private / MEETING))
        except OSError as error:
            raise TrialFailed(Failure("environment", f"no socket in {self._private}: {error}")) from None
        self._listener.listen(MOST_RANKS)
        (self._private / WANTED).write_text(json.dumps(self._told()))

    def _told(self) -> dict[str, str]:
        """Which program every Python below the command is compared with."""
        return {**asdict(self.wanted), "under": self._spec.target.cwd}

    def _start(self, command: Sequence[str], environment: dict[str, str], isolating: Sequence[str]) -> None:
        self._status, status = os.pipe()
        control, own_control = os.pipe()
        self._control = own_control
        kept = ["--keep", str(self._private)] if isolating else []
        line = [
            sys.executable, "-P", "-m", "advisor.tuners.supervision.supervise", "--parent", str(os.getpid()),
            "--stdout", str(self._logs / "stdout.log"), "--stderr", str(self._logs / "stderr.log"),
            "--status-fd", str(status), "--control-fd", str(control), *isolating, *kept, "--", *command,
        ]  # fmt: skip
        try:
            self._process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, pass_fds=(status, control, *self._held),
                cwd=self._spec.target.cwd, env=environment, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            os.close(self._status)
            os.close(own_control)
            raise
        finally:
            os.close(status)
            os.close(control)

    def _armed(self, environment: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
        path = os.pathsep.join(filter(None, [str(ARMING), environment.get("PYTHONPATH")]))
        return {**environment, **more, VARIABLE: str(self._private), "PYTHONPATH": path}

    def _next(self, limit_s: float, waiting: Waiting) -> None:
        """Take in the next process that comes, or wait a little."""
        waiting_for: list[socket.socket | Meeting | int] = [self._listener, self._status]
        if self.meeting is not None:
            waiting_for.append(self.meeting)
        ready = select.select(waiting_for, [], [], TICK_S)[0]
        if self._listener in ready:
            self._receive(Channel(self._listener.accept()[0]))
            return
        if self.meeting is not None and self.meeting in ready:
            self._receive(self.meeting.accept())
            return
        if self._status in ready:
            self._ended_early()
        waited = time.monotonic() - self._began
        waiting("start", waited)
        if waited > limit_s:
            raise TrialFailed(Failure("timeout", f"{self._missing()} in {waited:.0f} s"))

    def _receive(self, channel: Channel) -> None:
        """Hear who has come."""
        hello = _hello(channel)
        if hello is None:
            return
        is_stranger = isinstance(channel, DistantChannel) and not (
            self.meeting is not None and self.meeting.admits(hello.token)
        )
        if is_stranger:
            channel.close()
        else:
            self._welcome(channel, hello)

    def _welcome(self, channel: Channel, hello: Hello) -> None:
        """Take a process in, or let it go on without us."""
        variables = hello.variables
        rank, ranks = _number(variables, RANK, 0), _number(variables, RANKS, 1)
        target = Target(hello.kind, hello.name, hello.args, hello.cwd)
        first = self.target or target
        is_known = (target.kind, target.name) == (first.kind, first.name)
        if not is_known or rank in self._arrived or not rank < (self._world or ranks) <= MOST_RANKS:
            with contextlib.suppress(ChannelClosed):
                channel.send(Leave())
            channel.close()
            return
        times = variables["TORCHELASTIC_MAX_RESTARTS"] or "0"
        if times != "0":
            raise restarting(times)
        here = _number(variables, ("LOCAL_WORLD_SIZE",), ranks)
        if here != ranks and not self.has_port:
            message = (
                f"of {ranks} ranks not all are on this machine, and the command does not say `--nnodes N`"
            )
            raise TrialFailed(Failure("environment", message))
        self.target, self._world = first, self._world or ranks
        self._awaited = self._awaited or (here if self.meeting is None else ranks)
        self._arrived[rank] = Arrived(channel, hello.pid, hello.host, hello.folder)

    def _tell(self) -> list[Rank]:
        """Every rank gets its task, and its session what it needs."""
        assert self.target is not None  # the first rank brought it
        assert self._control is not None  # it was not closed
        ranks: list[Rank] = []
        ends: list[RankEnd] = []
        for number, arrived in sorted(self._arrived.items(), key=lambda each: (bool(each[1].host), each[0])):
            folder, place = self._folder(number), Place(number, self._world)
            spec = replace(self._spec, target=self.target, folder=str(folder), place=place)
            spec.write(folder / "trial.json")
            if isinstance(arrived.channel, DistantChannel):
                arrived.channel.folder = folder
                spec = self._distant(spec, arrived)
            end = RankEnd(None if arrived.host else arrived.pid, folder)
            ends.append(end)
            ranks.append(Rank(spec, folder, arrived.channel, end.status, end.control, arrived.pid))
        self._relay = Relay(self._status, self._control, self._process, ends)
        self._control = None
        self._relay.start()
        for rank in ranks:
            age_s = time.monotonic() - self._began
            asked = dict(self._asked or {}) if rank.spec.host else {}
            with contextlib.suppress(ChannelClosed):  # its session will find out
                rank.channel.send(Arm(rank.spec.text, age_s, (str(PACKAGE_PARENT),), asked))
        return ranks

    def _distant(self, spec: TrialSpec, arrived: Arrived) -> TrialSpec:
        """For a rank on another machine, where nothing isolates what it writes."""
        created = str(Path(arrived.folder) / "created")
        guard = Guard(Coverage(()), (arrived.folder,), created) if self._guards else None
        return replace(spec, folder=arrived.folder, host=arrived.host, isolation=None, guard=guard)

    def _folder(self, number: int) -> Path:
        """Of a rank: the trial's own where it is alone; the output of all ranks is one."""
        if self._world == 1:
            return self._logs
        folder = self._logs / f"rank-{number}"
        folder.mkdir(mode=0o700)
        for name in ("stdout.log", "stderr.log"):
            (folder / name).symlink_to(Path("..", name))
        return folder

    def _ended_early(self) -> NoReturn:
        """The command has ended, and not all ranks have come."""
        ended = read_ended(self._status, supervise.LONGEST_END_S)
        line = _unreached(self._logs / "stderr.log") or read_tail(self._logs / "stderr.log")
        code = None if ended is None else ended.exit_code
        if code is None or code in (NO_COMMAND, NOT_ISOLATED):
            raise TrialFailed(from_exit(ended, line, started=False))
        said = f" (exit status {code}{f': {line}' if line else ''})" if code else ""
        message = f"{self._missing()} when the command ended" if self._arrived else NO_PROGRAM
        raise TrialFailed(Failure("user_error", message + said))

    def _missing(self) -> str:
        missing = f"the command did not start {self.wanted.shown}"
        if self._arrived:
            missing = f"only {len(self._arrived)} of {self._awaited} ranks had started"
        if self.meeting is not None and not any(arrived.host for arrived in self._arrived.values()):
            missing += (
                f", and none of another machine: there {MEETING_VARIABLE} and PYTHONPATH must be in the "
                f"environment, and port {self.meeting.port} of {self.meeting.address} be reached"
            )
        return missing

    def _stop_listening(self) -> None:
        """Whoever comes from now on goes on untouched."""
        self._listener.close()
        if self.meeting is not None:
            self.meeting.close()
        shutil.rmtree(self._private, ignore_errors=True)


def _unreached(log: Path) -> str:
    """What a rank on another machine wrote that does not reach us; empty where it came or said nothing."""
    with contextlib.suppress(OSError), log.open(errors="replace") as stream:
        return next((line.strip() for line in stream if line.startswith(UNREACHED)), "")
    return ""


def _hello(channel: Channel) -> Hello | None:
    """The first line of a process that has come."""
    try:
        hello = channel.receive(HELLO_S)
    except ChannelClosed:
        hello = None
    if isinstance(hello, Hello):
        return hello
    channel.close()
    return None


def _number(variables: Mapping[str, str | None], names: Sequence[str], otherwise: int) -> int:
    """The first of these variables that holds a whole number."""
    found = (variables.get(name) or "" for name in names)
    return next((int(text) for text in found if text.isdecimal()), otherwise)
