"""How much of its time a thread computes: while others keep it from a CPU it neither computes nor waits."""

import time
from pathlib import Path

SCHEDULED = Path(
    "/proc/thread-self/schedstat"
)  # on a CPU, ready for one, in nanoseconds (Linux, proc_schedstat)


def spent_ns() -> tuple[int, int]:
    """CPU time of this process so far, and time in which nothing kept this thread from a CPU.

    Differences count; the first over the second is the share that is computing. Where the kernel does not
    tell how long a thread stood ready for a CPU, nothing ever kept it from one.
    """
    return time.process_time_ns(), time.perf_counter_ns() - _ready_ns()


def _ready_ns() -> int:
    try:
        return int(SCHEDULED.read_bytes().split()[1])
    except (OSError, IndexError, ValueError):  # no Linux, or a kernel without it
        return 0
