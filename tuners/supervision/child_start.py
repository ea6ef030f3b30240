"""Starting a trial under its supervisor: a program, or Python code in a fork, as leader of its own session.

Standard library only, as it is part of the supervisor.
"""

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from advisor.tuners.supervision.logs import Logs
from advisor.tuners.supervision.process_tree import die_with_parent

NO_COMMAND, NOT_ISOLATED = 127, 125  # exit codes of a trial that could not start, as in env and docker


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
        if prepare is not None and (code := isolated(prepare)):
            return code
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


def isolated(prepare: Callable[[], None]) -> int:
    """Isolate this process; 0, or the exit code where that failed, with the reason on stderr."""
    try:
        prepare()
    except OSError as error:
        print(f"writes could not be isolated: {error}", file=sys.stderr)
        return NOT_ISOLATED
    return 0


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
