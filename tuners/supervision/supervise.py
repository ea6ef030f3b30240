"""A small process between tuner and trial: it keeps deadlines and logs, and leaves no process behind.

Standard library only. Either a program, ``python -P -m advisor.tuners.supervision.supervise OPTIONS --
COMMAND ARGS``, or `supervise` in a process forked for it.
"""

import argparse
import contextlib
import math
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from advisor.tuners.supervision.child_start import executing, forking
from advisor.tuners.supervision.ended import Ended, Reason
from advisor.tuners.supervision.logs import CAP_BYTES, READ_BYTES, Logs
from advisor.tuners.supervision.process_tree import (
    GRACE_S,
    HAS_PROC,
    KILL_WAIT_S,
    PR_SET_PDEATHSIG,
    RSS_UNIT,
    become_subreaper,
    descendants,
    handles,
    living_since,
    memory_limit,
    oom_kills,
    pidfd,
    prctl,
    send,
)  # fmt: skip

STACKS_S = 0.5
SETTLE_S = 0.2  # helpers such as multiprocessing's resource tracker follow the trial by themselves
LONGEST_END_S = STACKS_S + GRACE_S + KILL_WAIT_S + 2.0  # from an order to the result, with the usual grace
LEFTOVER_GRACE_S = 0.5  # nobody waits longer for what a finished trial left
TURN_S = 0.1  # the shortest period of anything that is polled: the process runs beside measurements
PARENT_POLL_S = 0.5  # where no descriptor tells that the parent ended


def guard(
    body: Callable[[], int | None],
    *,
    parent: int,
    stdout: Path,
    stderr: Path,
    status_fd: int,
    control_fd: int | None = None,
    deadline_s: float | None = None,
    close: Collection[int] = (),
) -> NoReturn:
    """Turn this forked process for good into the supervisor of ``body``, which runs in a fork of it.

    Args:
        body: The trial.
        parent: Pid of the process that forked this one.
        stdout: Bounded file for the trial's output.
        stderr: Bounded file for its errors.
        status_fd: Gets one JSON line, the fields of `Ended`.
        control_fd: See `supervise`.
        deadline_s: See `supervise`.
        close: Descriptors that only the trial needs, closed here once it has them.
    """
    code = 1
    try:
        logs = Logs(stdout, stderr)
        forked = forking(body, logs)

        def start() -> int:
            trial = forked()
            for fd in close:
                os.close(fd)
            return trial

        report = partial(Ended.tell, status_fd=status_fd)
        ended = supervise(
            start, parent=parent, deadline_s=deadline_s, report=report, logs=logs, control_fd=control_fd
        )
        code = ended.as_exit_code
    finally:
        if (error := sys.exc_info()[1]) is not None:
            traceback.print_exception(error)
        os._exit(code)


def supervise(
    start: Callable[[], int],
    *,
    parent: int,
    grace_s: float = GRACE_S,
    deadline_s: float | None = None,
    report: Callable[[Ended], None],
    logs: Logs | None = None,
    control_fd: int | None = None,
) -> Ended:
    """Start a trial, wait for its end or bring it about, and return when no process of it is left.

    This process must exist for this purpose alone: its signal handlers, its session and all its children
    are taken over. SIGTERM, SIGINT or SIGHUP end the trial; a second one skips the grace.

    Args:
        start: Starts the trial as leader of its own session and returns its pid.
        parent: Pid of the process that forked this one; when it is gone the trial ends.
        grace_s: Seconds between SIGTERM and SIGKILL.
        deadline_s: Seconds from now until the trial is ended; ``None`` for never.
        report: Called once with the result, when the logs are complete.
        logs: Drained meanwhile.
        control_fd: Lines ``deadline SECONDS`` (from now) and ``kill``; its end means the tuner is gone.
            Nobody but the tuner may hold the other end.
    """
    become_subreaper()
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    with contextlib.suppress(PermissionError):  # leads a group already
        os.setsid()
    oom_kills_before = oom_kills()
    watch = _Watch(parent, deadline_s, control_fd, logs)
    reason = watch.stop_reason()
    stacks, left = False, 0
    if reason is None:
        watch.trial = start()
        reason = watch.until_ended()
    if reason == "exit":
        left = watch.count_leftovers()
    elif reason == "deadline" or watch.kill_ordered:
        stacks = watch.ask_for_stacks()
    stuck = (
        watch.end_all(min(grace_s, LEFTOVER_GRACE_S) if reason == "exit" else grace_s) if watch.trial else 0
    )
    if logs is not None:
        logs.close()
    code = None if watch.status is None else os.waitstatus_to_exitcode(watch.status)
    ended = Ended(
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        left=left,
        oom_kill=oom_kills() > oom_kills_before,
        peak_rss_bytes=watch.peak_rss_bytes,
        reason=reason,
        stacks=stacks,
        stuck=stuck,
        memory_limit_bytes=memory_limit() if watch.trial else 0,
    )
    report(ended)
    return ended


class _Watch:
    """Everything the supervisor waits for, in one ``poll``: signals, parent, orders and output."""

    def __init__(
        self, parent: int, deadline_s: float | None, control_fd: int | None, logs: Logs | None
    ) -> None:
        self.trial = 0
        self.status: int | None = None
        self.peak_rss_bytes = 0
        self.kill_ordered = False
        self._parent, self._parent_gone = parent, False
        self._deadline = time.monotonic() + (math.inf if deadline_s is None else deadline_s)
        self._signals = 0
        self._drains = list(logs.drains) if logs is not None else []
        self._drain_after = 0.0
        self._control_fd, self._orders = control_fd, b""
        if control_fd is not None:
            os.set_blocking(control_fd, False)
        self._parent_fd = pidfd(parent)
        self._wake_fd = self._wake_on_signals()

    def _wake_on_signals(self) -> int:
        read_fd, write_fd = os.pipe()
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._count_signal)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        return read_fd

    def _count_signal(self, number: int, frame: object) -> None:
        self._signals += 1

    def stop_reason(self) -> Reason | None:
        """Why the trial should end now."""
        if self._parent_gone or os.getppid() != self._parent:
            return "parent_gone"
        if self._signals or self.kill_ordered:
            return "asked"
        return "deadline" if time.monotonic() >= self._deadline else None

    def until_ended(self) -> Reason:
        """Wait until the trial ended by itself or should."""
        while True:
            self.reap()
            if self.status is not None:
                return "exit"
            if (reason := self.stop_reason()) is not None:
                return reason
            self.turn(self._deadline - time.monotonic())

    def turn(self, timeout_s: float) -> None:
        """Wait for the next thing to happen, for ``timeout_s`` at most, and take note of it."""
        now = time.monotonic()
        waiting = [self._wake_fd, self._parent_fd, self._control_fd]
        if now >= self._drain_after:
            waiting += [drain.fd for drain in self._drains]
        elif self._drains:
            timeout_s = min(timeout_s, self._drain_after - now)
        if self._parent_fd is None:
            timeout_s = min(timeout_s, PARENT_POLL_S)
        poll = select.poll()
        for fd in waiting:
            if fd is not None:
                poll.register(fd, select.POLLIN)
        timeout_ms = None if timeout_s == math.inf else max(math.ceil(timeout_s * 1000), 0)
        ready = {fd for fd, _ in poll.poll(timeout_ms)}
        if self._wake_fd in ready:
            os.read(self._wake_fd, READ_BYTES)
        if self._parent_fd in ready:
            self._parent_gone, self._parent_fd = True, None
        if self._control_fd is not None and self._control_fd in ready:
            self._take_orders(self._control_fd)
        self._pump(ready)

    def _pump(self, ready: set[int]) -> None:
        moved = [drain.pump() / drain.capacity for drain in self._drains if drain.fd in ready]
        self._drains = [drain for drain in self._drains if not drain.ended]
        if moved and max(moved) < 0.25:  # otherwise the pipe could fill up during a rest
            self._drain_after = time.monotonic() + TURN_S

    def _take_orders(self, fd: int) -> None:
        data = os.read(fd, READ_BYTES)
        if not data:
            self._parent_gone, self._control_fd = True, None
        *lines, self._orders = (self._orders + data).split(b"\n")
        for line in lines:
            word, _, seconds = line.partition(b" ")
            if word == b"deadline" and seconds.strip().replace(b".", b"").isdigit():
                self._deadline = time.monotonic() + float(seconds)
            elif line == b"kill":
                self.kill_ordered = True
            else:
                print(f"supervise: neither 'kill' nor 'deadline SECONDS': {line!r}", file=sys.stderr)

    def reap(self) -> bool:
        """Collect every child that ended; whether none is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            self.peak_rss_bytes = max(self.peak_rss_bytes, usage.ru_maxrss * RSS_UNIT)
            if pid == self.trial:
                self.status = status

    def count_leftovers(self) -> int:
        """How many processes outlive the trial and do not follow it at once."""
        settled = time.monotonic() + SETTLE_S
        while not self.reap() and time.monotonic() < settled:
            self.turn(settled - time.monotonic())
        return sum(living_since(pid) is not None for pid in descendants(os.getpid()))

    def ask_for_stacks(self) -> bool:
        """Send SIGUSR1 to every process of the trial that handles it, and wait for what it writes."""
        asked = {pid for pid in descendants(os.getpid()) if handles(pid, signal.SIGUSR1)}
        send(asked, signal.SIGUSR1, signal.SIGCONT)
        written = time.monotonic() + STACKS_S
        while asked and not self.reap() and time.monotonic() < written:
            self.turn(written - time.monotonic())
        return bool(asked)

    def end_all(self, grace_s: float) -> int:
        """SIGTERM, grace, SIGKILL to all descendants until none is left; how many are, after 30 s."""
        grace_ends = time.monotonic() + grace_s
        give_up = grace_ends + KILL_WAIT_S
        asked: set[int] = set()
        while not self.reap():
            now = time.monotonic()
            if now > give_up:
                return max(len(descendants(os.getpid())), 1)
            living = set(descendants(os.getpid())) if HAS_PROC else {-self.trial}
            if now < grace_ends and self._signals < 2:
                send(living - asked, signal.SIGTERM, signal.SIGCONT)
                asked |= living
            else:
                send(living, signal.SIGKILL)
            self.turn(TURN_S)
        if not HAS_PROC:
            send([-self.trial], signal.SIGKILL)  # members of its group that nobody can list
        return 0


def _parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(
        "advisor.tuners.supervision.supervise", usage="%(prog)s OPTIONS -- COMMAND ARGS"
    )
    parser.add_argument("--parent", type=int, required=True, help="pid of the tuner")
    parser.add_argument("--stdout", type=Path, required=True, help="file for the trial's output")
    parser.add_argument("--stderr", type=Path, required=True, help="file for its errors")
    parser.add_argument("--cap", type=int, default=CAP_BYTES, help="bytes kept of each end of them")
    parser.add_argument("--deadline", type=float, help="seconds until the trial is ended")
    parser.add_argument("--grace", type=float, default=GRACE_S, help="seconds between SIGTERM and SIGKILL")
    parser.add_argument("--status-fd", type=int, help="gets one JSON line at the end")
    parser.add_argument("--control-fd", type=int, help="lines 'deadline SECONDS' and 'kill'")
    parser.add_argument("--pass-fd", type=int, action="append", default=[], help="stays open in the trial")
    parser.add_argument("--overlay", type=Path, action="append", help="folder whose writes are isolated")
    parser.add_argument("--scratch", type=Path, help="where they land")
    parser.add_argument("--in-memory", action="store_true", help="they take memory instead")
    parser.add_argument("--keep", type=Path, action="append", default=[], help="not isolated below it")
    options = parser.parse_args(arguments[:split])
    if not arguments[split + 1 :]:
        parser.error("a command is missing after --")
    if (options.overlay is None) != (options.scratch is None):
        parser.error("--overlay and --scratch go together")
    return options, list(arguments[split + 1 :])


def _isolating(options: argparse.Namespace) -> Callable[[], None] | None:
    if options.overlay is None:
        return None
    from advisor.tuners.supervision import isolation  # most trials start without it

    return partial(
        isolation.enter, options.overlay, options.scratch, options.keep, in_memory=options.in_memory
    )


def _report(status_fd: int | None, ended: Ended) -> None:
    if status_fd is not None:
        ended.tell(status_fd)


def main(arguments: Sequence[str]) -> int:
    """Supervise a program; its exit code, or 128 and the signal that ended it."""
    options, command = _parse(arguments)
    logs = Logs(options.stdout, options.stderr, options.cap)
    ended = supervise(
        executing(command, logs, options.pass_fd, _isolating(options)),
        parent=options.parent,
        grace_s=options.grace,
        deadline_s=options.deadline,
        report=partial(_report, options.status_fd),
        logs=logs,
        control_fd=options.control_fd,
    )
    return ended.as_exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
