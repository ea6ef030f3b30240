"""How a trial ended, as its supervisor tells the tuner in one line.

Standard library only, as it is part of the supervisor.
"""

import contextlib
import dataclasses
import json
import os
import select
import signal
import time
from typing import Literal

MAX_LINE = 1 << 16

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
        memory_limit_bytes: Host memory that the trial was allowed; 0 when none ran.
    """

    exit_code: int | None
    signal: int | None
    left: int
    oom_kill: bool
    peak_rss_bytes: int
    reason: Reason
    stacks: bool
    stuck: int = 0
    memory_limit_bytes: int = 0

    def tell(self, status_fd: int) -> None:
        """Write it as one line of JSON."""
        with contextlib.suppress(BrokenPipeError):  # nobody is left to be told
            os.write(status_fd, json.dumps(dataclasses.asdict(self)).encode() + b"\n")

    @property
    def as_exit_code(self) -> int:
        """What a shell would say: the exit code, or 128 and the signal."""
        return 128 + (self.signal or signal.SIGKILL) if self.exit_code is None else self.exit_code


def read_ended(status_fd: int, limit_s: float) -> Ended | None:
    """What a supervisor wrote to the other end; ``None`` if it could not, because it was killed itself.

    Waits for that for ``limit_s`` seconds at most; see ``LONGEST_END_S`` of the supervisor.
    """
    line = b""
    deadline = time.monotonic() + limit_s
    while not line.endswith(b"\n"):
        if not select.select([status_fd], [], [], max(deadline - time.monotonic(), 0))[0]:
            break
        part = os.read(status_fd, MAX_LINE)
        if not part:
            break
        line += part
    try:
        return Ended(**json.loads(line))
    except (ValueError, TypeError):
        return None
