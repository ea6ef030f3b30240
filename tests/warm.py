"""Python children without the start of Python: forked from one server that has loaded what they import.

A child is what ``python -m NAME``, ``python FILE`` or ``python -c CODE`` would be, apart from what is fixed
when a process or its libraries start: the command line that other processes see, the environment as
``/proc`` shows it, and variables that torch and OpenMP read when they are loaded (``OMP_NUM_THREADS`` is 1).
Tests about those, and about what is imported, start Python itself.
"""

import atexit
import gc
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

MESSAGE_BYTES = 2**18
MOST_DESCRIPTORS = 16  # stdout, stderr, where the exit status goes, stdin, and those a child asks for
LOADED = (
    "torch",
    "torch._dynamo",
    "optuna",
    "advisor.runs.tune",
    "advisor.cli.commands.tune",
    "advisor.tuners.trial.trial",
)


@dataclass
class Child:
    """A forked child; of ``subprocess.Popen`` what tests use, with its output in files.

    Attributes:
        returncode: As in ``subprocess.Popen``; ``None`` while it is not known to have ended.
    """

    pid: int
    _status: int
    _out: IO[bytes]
    _err: IO[bytes]
    returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or ``None`` while it runs."""
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended.

        Raises:
            subprocess.TimeoutExpired: It has not ended after ``timeout`` seconds.
        """
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired([f"child {self.pid}"], timeout or 0.0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it wrote to stdout and stderr, once it has ended."""
        self.wait(timeout)
        return self.said()

    def said(self) -> tuple[str, str]:
        """What it has written to stdout and stderr so far."""
        return _text(self._out), _text(self._err)

    def send_signal(self, number: int) -> None:
        """Send a signal to it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once, but for what it has started."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            answer = os.read(self._status, 16)
            os.close(self._status)
            self.returncode = int(answer) if answer else -signal.SIGKILL  # the server itself was ended
        return self.returncode


def _text(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


@dataclass
class Warm:
    """The server, seen from the tests; started with the first child.

    Attributes:
        loaded: Modules that it imports before it forks; by default torch and what measures.
    """

    loaded: Sequence[str] = LOADED
    _connection: socket.socket | None = None
    _process: "subprocess.Popen[bytes] | None" = None
    _children: list[Child] = field(default_factory=list)

    def start(
        self,
        *arguments: str | Path,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | None = None,
        passes: Sequence[int] = (),
    ) -> Child:
        """Start ``python *arguments``, of whose options ``-c`` and ``-m`` are understood.

        Args:
            arguments: As behind ``python`` on a command line.
            cwd: Its folder; by default that of the test.
            env: Its environment; by default that of the test, with ``OMP_NUM_THREADS=1``.
            stdin: A descriptor; by default its input is empty.
            passes: Descriptors that it has as well; their numbers there are its last argument.
        """
        connection = self._connected()
        out, err = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115
        status_read, status_write = os.pipe()
        job = {
            "arguments": [str(argument) for argument in arguments],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(env) if env is not None else {**os.environ, "OMP_NUM_THREADS": "1"},
            "stdin": stdin is not None,
        }
        passed = [out.fileno(), err.fileno(), status_write, *([] if stdin is None else [stdin]), *passes]
        socket.send_fds(connection, [json.dumps(job).encode()], passed)
        os.close(status_write)
        child = Child(int(connection.recv(64)), status_read, out, err)
        self._children.append(child)
        return child

    def run(
        self, *arguments: str | Path, timeout: float = 300.0, **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        """Run ``python *arguments`` to its end; ``options`` as for ``start``."""
        child = self.start(*arguments, **options)
        try:
            out, err = child.communicate(timeout)
        finally:
            child.kill()
        return subprocess.CompletedProcess(arguments, child.wait(), out, err)

    def remaining(self) -> list[psutil.Process]:
        """What lives below the server."""
        server = psutil.Process(self._process.pid) if self._process is not None else None
        return [] if server is None else server.children(recursive=True)

    def end_children(self) -> None:
        """End the children that a test has left."""
        for child in self._children:
            child.kill()
            child.wait(60)
        self._children.clear()

    def close(self) -> None:
        """End everything."""
        self.end_children()
        if self._connection is not None and self._process is not None:
            self._connection.close()
            self._process.wait()

    def _connected(self) -> socket.socket:
        if self._connection is None:
            self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            from supervised import MARK  # not in the server, which runs this file

            environment = {name: value for name, value in os.environ.items() if name != MARK}
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno()), *self.loaded],
                pass_fds=[theirs.fileno()],
                env={**environment, "OMP_NUM_THREADS": "1"},  # it outlives the test that needs it first
                start_new_session=True,  # an interrupt of the tests is not one of every child
            )
            theirs.close()
        return self._connection


def _serve(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork a child for each job and tell how it ended; returns in the child, with its job."""
    statuses: dict[int, int] = {}
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([connection.fileno(), woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            _tell_ended(statuses)
        if connection.fileno() not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, MOST_DESCRIPTORS)
        if not data:
            for pid in statuses:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run behind a shell
            connection.close()
            for descriptor in (woken, wakes, *statuses.values(), descriptors[2]):
                os.close(descriptor)
            return json.loads(data), descriptors
        statuses[pid] = descriptors.pop(2)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(str(pid).encode())


def _tell_ended(statuses: dict[int, int]) -> None:
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        descriptor = statuses.pop(pid)
        os.write(descriptor, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(descriptor)


def _become(job: dict[str, Any], descriptors: list[int]) -> None:
    """Make this process the child that was asked for, and run what it is to run."""
    given = descriptors[3:]
    stdin = given.pop(0) if job["stdin"] else os.open(os.devnull, os.O_RDONLY)
    if given:
        job["arguments"].append(",".join(map(str, given)))
    for place, descriptor in enumerate((stdin, *descriptors[:2])):
        os.dup2(descriptor, place)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(place, mode, encoding="utf-8", errors=errors, buffering=1, closefd=False)
        for place, mode, errors in ((0, "r", "strict"), (1, "w", "strict"), (2, "w", "backslashreplace"))
    )
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    time.tzset()
    random.seed()
    first, *others = job["arguments"]
    if first == "-m":
        sys.argv, sys.path[:0] = others, [job["cwd"]]
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv, sys.path[:0] = ["-c", *others[1:]], [""]
        exec(compile(others[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv, sys.path[:0] = [first, *others], [str(Path(first).absolute().parent)]
        runpy.run_path(first, run_name="__main__")


def _exit_code(end: BaseException) -> int:
    """What an exception that nobody caught makes of the exit code, told as the interpreter tells it."""
    if not isinstance(end, SystemExit):
        sys.excepthook(type(end), end, end.__traceback__)
        return 128 + signal.SIGINT if isinstance(end, KeyboardInterrupt) else 1
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


def main() -> None:
    """Entry of the server, and of what it forks."""
    for name in sys.argv[2:]:
        __import__(name)
    gc.freeze()  # children copy no page of what is loaded only because it was looked at
    job, descriptors = _serve(socket.socket(fileno=int(sys.argv[1])))
    code = 0
    try:
        _become(job, descriptors)
    except BaseException as end:
        code = _exit_code(end)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # taking apart all that is loaded would take seconds


if __name__ == "__main__":
    main()
