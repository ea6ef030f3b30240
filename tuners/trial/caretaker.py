"""Beside a rank on another machine than its tuner's, where no supervisor is: a process that looks after it.

It ends the rank with all below it as soon as the line to the tuner ends, tells the tuner how the rank ended
without an outcome, and takes away what was written for the tuner, which has got all of it over the line.
"""

import contextlib
import os
import select
import shutil
import signal
import socket
from pathlib import Path

from advisor.tuners.supervision.failures import Failure
from advisor.tuners.supervision.process_tree import kill_tree, living_since, oom_kills, pidfd
from advisor.tuners.trial.channel import encode
from advisor.tuners.trial.messages import Failed
from advisor.tuners.trial.spec import TrialSpec

KEEPALIVE_S = 10  # of silence, before the line is tried
KEEPALIVE_TRIES = 3
LOOK_S = 0.5  # where no descriptor tells that a process ended
GRACE_S = 0.5  # its partners are gone: nothing it could save is of use


def keep_alive(connection: socket.socket) -> None:
    """Notice within a minute that the other machine is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_S), ("TCP_KEEPINTVL", KEEPALIVE_S), ("TCP_KEEPCNT", KEEPALIVE_TRIES),
        ("TCP_USER_TIMEOUT", 1000 * KEEPALIVE_S * (KEEPALIVE_TRIES + 1)),
    ):  # fmt: skip
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def attend(connection: socket.socket, spec: TrialSpec) -> None:
    """Have this process, which is about to be the trial of ``spec``, looked after.

    The caretaker is nobody's child: a program that waits for its children does not meet it.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(connection)
    rank, before = os.getpid(), oom_kills()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)  # meant for the rank, whose end it outlives by little
            _let_go_of_all_but(connection.fileno())
            _look_after(rank, connection, spec, before)
    finally:
        os._exit(0)


def _let_go_of_all_but(line: int) -> None:
    """Whoever reads what the rank writes sees its end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    os.closerange(3, line)
    os.closerange(line + 1, os.sysconf("SC_OPEN_MAX"))


def _look_after(rank: int, connection: socket.socket, spec: TrialSpec, oom_before: int) -> None:
    process = pidfd(rank)
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    if process is not None:
        poll.register(process, select.POLLIN)
    tick = LOOK_S * 1000 if process is None else None
    while living_since(rank) and connection.fileno() not in dict(poll.poll(tick)):
        pass
    if living_since(rank):
        kill_tree(rank, grace_s=GRACE_S)
    elif not (Path(spec.folder) / "outcome.json").exists():
        with contextlib.suppress(OSError):  # the tuner is gone, too
            connection.sendall(encode(Failed(_how_it_ended(rank, spec.host, oom_kills() > oom_before))))
    if spec.guard is not None:
        spec.guard.clean()
    shutil.rmtree(spec.folder, ignore_errors=True)


def _how_it_ended(rank: int, host: str, oom: bool) -> Failure:
    """Of a process that left no outcome, as long as its parent has not asked."""
    if oom:
        return Failure("oom_host", f"killed by the kernel of {host} for lack of memory")
    try:
        code = os.waitstatus_to_exitcode(int(Path(f"/proc/{rank}/stat").read_bytes().split()[-1]))
    except (OSError, ValueError):
        return Failure("killed", f"its process on {host} is gone, without a result")
    if code >= 0:
        return Failure("user_error", f"ended on {host} without a result, exit status {code}")
    name = signal.Signals(-code).name
    if -code in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        return Failure("killed", f"ended on {host} by {name} from outside")
    return Failure("crash_signal", f"ended on {host} by {name}")
