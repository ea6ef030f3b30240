"""How long a thread was at work, or ready to be: what other programs take of the CPU is no waiting."""

import time
from pathlib import Path

SCHEDULED = Path(
    "/proc/thread-self/schedstat"
)  # on a CPU, ready for one, in nanoseconds (Linux, proc_schedstat)


def busy_ns() -> int:
    """CPU time of this process so far, and the time for which this thread stood ready for a CPU.

    Differences count. Where the kernel does not tell the second, it is none.
    """
    return time.process_time_ns() + _ready_ns()


def _ready_ns() -> int:
    try:
        return int(SCHEDULED.read_bytes().split()[1])
    except (OSError, IndexError, ValueError):  # no Linux, or a kernel without it
        return 0
