"""Several sessions below one supervisor: each is told how its own rank ended, and any of them can end all."""

import contextlib
import os
import select
import subprocess
import threading
from collections.abc import Collection
from pathlib import Path

from advisor.tuners.supervision import supervise
from advisor.tuners.supervision.ended import Ended, read_ended
from advisor.tuners.supervision.process_tree import pidfd

LOOK_S = 0.5  # where no descriptor tells that a process ended
BY_ITSELF = Ended(0, None, left=0, oom_kill=False, peak_rss_bytes=0, reason="exit", stacks=False)


class RankEnd:
    """One rank below the supervisor of all.

    Args:
        pid: The process; ``None`` on another machine, where its outcome alone tells that it ended.
        folder: Where it leaves its outcome.

    Attributes:
        status: For its session: gets one line of `Ended`.
        control: For its session: ``kill``, or its end.
    """

    def __init__(self, pid: int | None, folder: Path) -> None:
        self.status, self._told = os.pipe()
        self._orders, self.control = os.pipe()
        self._pid = pid
        self._process = None if pid is None else pidfd(pid)
        self._outcome = folder / "outcome.json"
        self.gone = self.is_told = self.released = False

    @property
    def sees_end(self) -> bool:
        """Whether a descriptor tells that the process ended."""
        return self._process is not None

    @property
    def waiting(self) -> list[int]:
        """Descriptors that something comes from."""
        process = [] if self.gone or self._process is None else [self._process]
        return process if self.released else [self._orders, *process]

    def tell(self, ended: Ended | None) -> None:
        """Let its session know how it ended; ``None`` when nobody knows."""
        if self.is_told:
            return
        self.is_told = True
        if ended is not None:
            ended.tell(self._told)
        os.close(self._told)

    def look(self, ready: Collection[int]) -> None:
        """Take note of its end: with an outcome it is complete, without one the command's end explains it."""
        if self.gone or not self._has_ended(ready):
            return
        self.gone = True
        if self._outcome.exists():
            self.tell(BY_ITSELF)

    def orders(self, ready: Collection[int]) -> bytes:
        """What its session orders; an empty text also at the end of orders."""
        if self.released or self._orders not in ready:
            return b""
        data = os.read(self._orders, 4096)
        self.released = not data
        return data

    def close(self) -> None:
        """Give back what is not the session's."""
        os.close(self._orders)
        if self._process is not None:
            os.close(self._process)

    def _has_ended(self, ready: Collection[int]) -> bool:
        if self._process is not None:
            return self._process in ready
        if self._pid is None:
            return self._outcome.exists()
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return True
        return False


class Relay(threading.Thread):
    """Stands between a supervisor and the sessions of its ranks, in a thread that mostly sleeps.

    A session that is closed before its rank ended ends the whole command, as does the last one that is.

    Args:
        status: The supervisor's status, to be read.
        control: The supervisor's orders, to be written; theirs from now on are ours alone.
        process: The supervisor; waited for at its end.
        ranks: One for each session.
    """

    def __init__(
        self, status: int, control: int, process: "subprocess.Popen[bytes]", ranks: Collection[RankEnd]
    ) -> None:
        super().__init__(name="advisor-relay", daemon=True)
        self._status = status
        self._control: int | None = control
        self._process = process
        self._ranks = list(ranks)
        self._woken, self._wake = os.pipe()
        self._closed = False

    def run(self) -> None:
        """Until the supervisor has ended."""
        while True:
            ready = self._wait()
            for rank in self._ranks:
                rank.look(ready)
                orders = rank.orders(ready)
                if orders:
                    self._order(orders)
                elif rank.released and not rank.is_told:
                    self._end()
            if self._woken in ready or all(rank.released for rank in self._ranks):
                self._end()
            if self._status in ready:
                break
        ended = read_ended(self._status, supervise.LONGEST_END_S)
        for rank in self._ranks:
            rank.tell(ended)
        self._end()
        self._process.wait()
        for rank in self._ranks:
            rank.close()
        os.close(self._status)
        os.close(self._woken)

    def close(self) -> None:
        """End the command, and return when nothing of it is left."""
        if not self._closed:
            self._closed = True
            os.close(self._wake)
        self.join(supervise.LONGEST_END_S)

    def _wait(self) -> set[int]:
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        if self._control is not None:
            poll.register(self._woken, select.POLLIN)
        for rank in self._ranks:
            for descriptor in rank.waiting:
                poll.register(descriptor, select.POLLIN)
        sees_all = all(rank.gone or rank.sees_end for rank in self._ranks)
        return {descriptor for descriptor, _ in poll.poll(None if sees_all else LOOK_S * 1000)}

    def _order(self, data: bytes) -> None:
        if self._control is not None:
            with contextlib.suppress(BrokenPipeError):  # the supervisor itself was killed
                os.write(self._control, data)

    def _end(self) -> None:
        if self._control is not None:
            os.close(self._control)
            self._control = None
