"""A small process between tuner and trial: it keeps deadlines and logs, and leaves no process behind.

Standard library only. Either a program, ``python -I -S supervise.py OPTIONS -- COMMAND ARGS``, or `supervise`
in a process forked for it. Linux is first class; without ``prctl`` and ``/proc`` (macOS) it works by process
groups, which a child that leaves its group escapes.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import fcntl
import importlib.util
import json
import math
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
KILL_WAIT_S = 30.0  # a process in uninterruptible sleep may outlast any signal
STACKS_S = 0.5
SETTLE_S = 0.2  # helpers such as multiprocessing's resource tracker follow the trial by themselves
GRACE_S = 3.0
LONGEST_END_S = STACKS_S + GRACE_S + KILL_WAIT_S + 2.0  # from an order to the result, with the usual grace
LEFTOVER_GRACE_S = 0.5  # nobody waits longer for what a finished trial left
TURN_S = 0.1  # the shortest period of anything that is polled: the process runs beside measurements
PARENT_POLL_S = 0.5  # where no descriptor tells that the parent ended
CAP_BYTES = 1_000_000
PIPE_BYTES = 1 << 20  # what Linux allows everyone; a full pipe would stop the trial
READ_BYTES = 1 << 16
NO_COMMAND, NOT_ISOLATED = 127, 125  # exit codes of a trial that could not start, as in env and docker

HAS_PROC = Path("/proc/self/stat").exists()
LISTS_CHILDREN = Path("/proc/thread-self/children").exists()  # not in every kernel

Reason = Literal["exit", "deadline", "asked", "parent_gone"]


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a trial ended.

    Args:
        exit_code: What it returned; ``None`` if a signal ended it or it could not be ended.
        signal: The signal that ended it, ours or another's.
        left: Descendants that were alive after the trial had ended by itself, and were killed.
        oom_kill: The kernel killed a process of this cgroup for lack of memory meanwhile.
        peak_rss_bytes: Resident memory of the largest process of the trial at its highest.
        reason: ``exit``: by itself; ``deadline``; ``asked``: by signal or order; ``parent_gone``: the tuner
            or warm parent ended.
        stacks: The Python stacks were asked for before the kill (SIGUSR1, sent to whom handles it).
        stuck: Processes that SIGKILL did not end within 30 s.
    """

    exit_code: int | None
    signal: int | None
    left: int
    oom_kill: bool
    peak_rss_bytes: int
    reason: Reason
    stacks: bool
    stuck: int = 0


class Drain:
    """A pipe emptied into a file that keeps the first and the last ``cap_bytes`` of what was written.

    The first part can be read meanwhile; the last one, after a line that says how many bytes are missing,
    is written by `close`. A full disk loses output, never the trial.
    """

    def __init__(self, path: Path, cap_bytes: int = CAP_BYTES) -> None:
        self.fd, self.child_fd = os.pipe()
        self.ended = False
        self.capacity = READ_BYTES
        os.set_blocking(self.fd, False)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # the user's pipes hold too much already: the default size
                self.capacity = fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        self._cap = self._room = cap_bytes
        self._tail = bytearray()
        self._cut = 0

    def pump(self) -> int:
        """Move what is in the pipe now, about one full pipe at most; the number of bytes moved."""
        moved = 0
        while moved < self.capacity and not self.ended:
            try:
                data = os.read(self.fd, READ_BYTES)
            except BlockingIOError:
                break
            self.ended = not data
            self._store(data)
            moved += len(data)
        return moved

    def close(self) -> None:
        """Take what is left in the pipe, whoever still holds it open, and finish the file."""
        self.pump()
        self.pump()  # what arrived in a pipe that was full
        self._shorten(self._cap)
        if self._cut:
            self._write(b"\n[... %d bytes cut ...]\n" % self._cut)
        self._write(self._tail)
        os.close(self._file)
        os.close(self.fd)

    def _store(self, data: bytes) -> None:
        head, rest = data[: self._room], data[self._room :]
        self._room -= len(head)
        self._write(head)
        self._tail += rest
        if len(self._tail) > 2 * self._cap:
            self._shorten(self._cap)

    def _shorten(self, size: int) -> None:
        surplus = max(len(self._tail) - size, 0)
        self._cut += surplus
        del self._tail[:surplus]

    def _write(self, data: bytes | bytearray) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            self._cut += len(view)


class Logs:
    """stdout and stderr of a trial, each through a `Drain`; one path for both keeps their order."""

    def __init__(self, stdout: Path, stderr: Path, cap_bytes: int = CAP_BYTES) -> None:
        first = Drain(stdout, cap_bytes)
        self.stdout, self.stderr = first, first if stderr == stdout else Drain(stderr, cap_bytes)
        self.drains = list(dict.fromkeys([self.stdout, self.stderr]))

    def redirect(self) -> None:
        """In the trial: descriptors 1 and 2 lead into the pipes."""
        os.dup2(self.stdout.child_fd, 1)
        os.dup2(self.stderr.child_fd, 2)
        for drain in self.drains:
            os.close(drain.fd)
        self.started()

    def started(self) -> None:
        """In the supervisor, once the trial has its end of the pipes: close it here."""
        for drain in self.drains:
            os.close(drain.child_fd)

    def close(self) -> None:
        """In the supervisor, once the trial has ended: complete the files."""
        for drain in self.drains:
            drain.close()


def become_subreaper() -> bool:
    """Let orphaned descendants become children of this process; whether the system can."""
    return _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(expected_parent: int) -> None:
    """Have this process killed when its parent ends, or at once if that is not ``expected_parent`` any more.

    Survives ``exec``, but not a fork: each child says it again. The parent's *thread* that forked counts.
    """
    if _prctl(PR_SET_PDEATHSIG, signal.SIGKILL) and os.getppid() != expected_parent:
        os.kill(os.getpid(), signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Every process below ``pid``, zombies included, parents first; empty where there is no ``/proc``."""
    found = [pid]
    for parent in found:  # grows while it is read
        found += [child for child in _children(parent) if child not in found]
    return found[1:]


def kill_tree(pid: int, grace_s: float = GRACE_S, spare: Collection[int] = ()) -> int:
    """End ``pid`` and everything below it: SIGTERM, ``grace_s`` seconds, SIGKILL; at most 30 s more.

    With the caller's own pid: everything below the caller, orphans it adopted included, but not itself.
    Adopted orphans are reaped; ``pid`` itself is left to whoever waits for it.

    Args:
        pid: Leader of its own process group.
        grace_s: Seconds between the two signals.
        spare: Processes that stay, with all that is below them.

    Returns:
        How many processes are still there.
    """
    if not HAS_PROC:
        return _kill_group(pid, grace_s)
    grace_ends = time.monotonic() + grace_s
    spared = _trees(spare) | {os.getpid()}
    known: dict[int, int | None] = {}  # with the start time: a number can be given to another process
    asked: set[int] = set()
    while True:
        for process in _trees([pid, *known]) - spared - known.keys():
            known[process] = _living_since(process)
        living = {process for process, since in known.items() if since and since == _living_since(process)}
        now = time.monotonic()
        if not living or now > grace_ends + KILL_WAIT_S:
            break
        if now < grace_ends:
            _send(living - asked, signal.SIGTERM, signal.SIGCONT)
            asked |= living
        else:
            _send(living, signal.SIGKILL)
        time.sleep(0.02)
    for process in known.keys() - {pid}:
        with contextlib.suppress(ChildProcessError):  # not adopted: its own parent reaps it
            os.waitpid(process, os.WNOHANG)
    return len(living)


def executing(
    command: list[str],
    logs: Logs | None = None,
    pass_fds: Sequence[int] = (),
    prepare: Callable[[], None] | None = None,
) -> Callable[[], int]:
    """A ``start`` for `supervise` that runs a program with the descriptors 0, 1, 2 and ``pass_fds``.

    ``prepare`` runs just before (isolation). A program that cannot start exits with 127, a failed
    ``prepare`` with 125; the reason is on its stderr.
    """

    def run() -> int:
        try:
            if prepare is not None:
                prepare()
        except (OSError, ValueError) as error:
            print(f"writes could not be isolated: {error}", file=sys.stderr)
            return NOT_ISOLATED
        for fd in map(int, os.listdir("/dev/fd")):
            with contextlib.suppress(OSError):  # the one that listed them
                os.set_inheritable(fd, fd in (0, 1, 2, *pass_fds))
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # Python ignores them, and exec would hand that on
        try:
            os.execvp(command[0], command)
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return NO_COMMAND

    return forking(run, logs)


def forking(body: Callable[[], int | None], logs: Logs | None = None) -> Callable[[], int]:
    """A ``start`` for `supervise` that runs Python code in a fork; it returns the exit code (``None``: 0).

    The trial leads its own session, reads nothing, has Python's usual signal handlers, and dies with the
    supervisor. No ``finally`` or ``atexit`` of the forked program runs in it.
    """

    def start() -> int:
        supervisor = os.getpid()
        trial = os.fork()
        if trial == 0:
            _run(body, supervisor, logs)
        if logs is not None:
            logs.started()
        return trial

    return start


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

        report = partial(_tell, status_fd)
        ended = supervise(
            start, parent=parent, deadline_s=deadline_s, report=report, logs=logs, control_fd=control_fd
        )
        code = _exit_code(ended)
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
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    with contextlib.suppress(PermissionError):  # leads a group already
        os.setsid()
    oom_kills = _oom_kills()
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
        oom_kill=_oom_kills() > oom_kills,
        peak_rss_bytes=watch.peak_rss_bytes,
        reason=reason,
        stacks=stacks,
        stuck=stuck,
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
        self._parent_fd = _pidfd(parent)
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
            unit = 1 if sys.platform == "darwin" else 1024  # man getrusage
            self.peak_rss_bytes = max(self.peak_rss_bytes, usage.ru_maxrss * unit)
            if pid == self.trial:
                self.status = status

    def count_leftovers(self) -> int:
        """How many processes outlive the trial and do not follow it at once."""
        settled = time.monotonic() + SETTLE_S
        while not self.reap() and time.monotonic() < settled:
            self.turn(settled - time.monotonic())
        return sum(_living_since(pid) is not None for pid in descendants(os.getpid()))

    def ask_for_stacks(self) -> bool:
        """Send SIGUSR1 to every process of the trial that handles it, and wait for what it writes."""
        asked = {pid for pid in descendants(os.getpid()) if _handles(pid, signal.SIGUSR1)}
        _send(asked, signal.SIGUSR1, signal.SIGCONT)
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
                _send(living - asked, signal.SIGTERM, signal.SIGCONT)
                asked |= living
            else:
                _send(living, signal.SIGKILL)
            self.turn(TURN_S)
        if not HAS_PROC:
            _send([-self.trial], signal.SIGKILL)  # members of its group that nobody can list
        return 0


def _run(body: Callable[[], int | None], supervisor: int, logs: Logs | None) -> NoReturn:
    """The forked trial, from its first line to its exit."""
    code = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if logs is not None:
            logs.redirect()
            sys.stdin = open(0, closefd=False)  # noqa: SIM115  the trial's own, for as long as it lives
            sys.stdout = open(1, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115
            sys.stderr = open(2, "w", 1, closefd=False, errors="backslashreplace")  # noqa: SIM115
        die_with_parent(supervisor)
        code = body() or 0
    except SystemExit as stop:
        if isinstance(stop.code, int | None):
            code = stop.code or 0
        else:
            print(stop.code, file=sys.stderr)
    finally:
        if (error := sys.exc_info()[1]) is not None:
            traceback.print_exception(error)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0)


def _pidfd(pid: int) -> int | None:
    """A descriptor that can be read once the process ended; ``None`` before Linux 5.3 and elsewhere."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _stat(pid: int) -> list[bytes]:
    """The fields of ``/proc/PID/stat`` from the third on; empty once the process is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return []


def _living_since(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; ``None`` if it is gone or a zombie."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in (b"Z", b"X") else None


def _children(pid: int) -> list[int]:
    children: list[int] = []
    if not LISTS_CHILDREN:
        others = [int(name) for name in os.listdir("/proc") if name.isdigit()] if HAS_PROC else []
        return [other for other in others if _stat(other)[1:2] == [b"%d" % pid]]
    with contextlib.suppress(OSError):  # ended meanwhile
        for task in os.listdir(f"/proc/{pid}/task"):
            children += map(int, Path(f"/proc/{pid}/task/{task}/children").read_bytes().split())
    return children


def _trees(roots: Iterable[int]) -> set[int]:
    return {process for root in roots for process in (root, *descendants(root))}


def _send(pids: Iterable[int], *signals: signal.Signals) -> None:
    for pid in pids:
        for number in signals:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # gone; a set-user-ID program
                os.kill(pid, number)


def _kill_group(leader: int, grace_s: float) -> int:
    _send([-leader], signal.SIGTERM, signal.SIGCONT)
    time.sleep(grace_s)
    _send([-leader], signal.SIGKILL)
    return 0


def _handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal, which would end it otherwise."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _oom_kills() -> int:
    """How many processes of this cgroup were killed for memory so far; 0 where the kernel does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            name = "memory.oom_control" if controllers else "memory.events"
            folder = f"/sys/fs/cgroup/{controllers}".rstrip("/")
            for file in (Path(f"{folder}{path}/{name}"), Path(folder, name)):  # the second: in a container
                if file.exists():
                    return int(dict(row.split() for row in file.read_text().splitlines()).get("oom_kill", 0))
    return 0


def _parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser("supervise.py", usage="supervise.py OPTIONS -- COMMAND ARGS")
    parser.add_argument("--parent", type=int, required=True, help="pid of the tuner")
    parser.add_argument("--stdout", type=Path, required=True, help="file for the trial's output")
    parser.add_argument("--stderr", type=Path, required=True, help="file for its errors")
    parser.add_argument("--cap", type=int, default=CAP_BYTES, help="bytes kept of each end of them")
    parser.add_argument("--deadline", type=float, help="seconds until the trial is ended")
    parser.add_argument("--grace", type=float, default=GRACE_S, help="seconds between SIGTERM and SIGKILL")
    parser.add_argument("--status-fd", type=int, help="gets one JSON line at the end")
    parser.add_argument("--control-fd", type=int, help="lines 'deadline SECONDS' and 'kill'")
    parser.add_argument("--pass-fd", type=int, action="append", default=[], help="stays open in the trial")
    parser.add_argument("--overlay", type=Path, help="folder whose writes are isolated")
    parser.add_argument("--scratch", type=Path, help="where they land")
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
    spec = importlib.util.spec_from_file_location("isolation", Path(__file__).with_name("isolation.py"))
    assert spec is not None and spec.loader is not None
    isolation = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(isolation)
    return partial(isolation.enter, options.overlay, options.scratch, options.keep)


def _tell(status_fd: int | None, ended: Ended) -> None:
    if status_fd is not None:
        with contextlib.suppress(BrokenPipeError):  # nobody is left to be told
            os.write(status_fd, json.dumps(dataclasses.asdict(ended)).encode() + b"\n")


def _exit_code(ended: Ended) -> int:
    return 128 + (ended.signal or signal.SIGKILL) if ended.exit_code is None else ended.exit_code


def main(arguments: Sequence[str]) -> int:
    """Supervise a program; its exit code, or 128 and the signal that ended it."""
    options, command = _parse(arguments)
    logs = Logs(options.stdout, options.stderr, options.cap)
    ended = supervise(
        executing(command, logs, options.pass_fd, _isolating(options)),
        parent=options.parent,
        grace_s=options.grace,
        deadline_s=options.deadline,
        report=partial(_tell, options.status_fd),
        logs=logs,
        control_fd=options.control_fd,
    )
    return _exit_code(ended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
