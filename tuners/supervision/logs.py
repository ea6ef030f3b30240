"""What a trial writes to stdout and stderr, kept within bounds: the first and the last part of each.

Standard library only, as it is part of the supervisor.
"""

import contextlib
import fcntl
import os
import sys
from pathlib import Path

CAP_BYTES = 1_000_000
PIPE_BYTES = 1 << 20  # what Linux allows everyone; a full pipe would stop the trial
READ_BYTES = 1 << 16


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
