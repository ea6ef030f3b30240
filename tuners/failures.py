"""Why a trial failed, from the closed list of causes.

The child describes exceptions, the parent what it sees from outside: signals, deadlines, silence.
"""

import errno
import signal
import traceback
from dataclasses import dataclass
from typing import Literal

MAX_MESSAGE = 2000
MAX_TRACEBACK = 20_000

Cause = Literal[
    "user_error", "oom_device", "oom_host", "shm_full", "disk_full", "timeout", "hang_collective", "killed",
    "crash_signal", "device_error", "compile_failed", "compile_fell_back", "not_applied", "numerics_mismatch",
    "non_finite", "interference", "throttled", "lost_lease", "storage", "environment", "internal",
]  # fmt: skip

USER_CAUSES: frozenset[Cause] = frozenset(
    {"user_error", "crash_signal", "hang_collective", "device_error", "compile_failed", "compile_fell_back",
     "numerics_mismatch", "non_finite"}
)  # fmt: skip
RESOURCE_CAUSES: frozenset[Cause] = frozenset({"oom_device", "oom_host", "shm_full", "disk_full", "timeout"})


@dataclass(frozen=True)
class Failure:
    """A cause, the message, and the user's part of the traceback; place as ``file:line``."""

    cause: Cause
    message: str
    trace: str = ""
    where: str | None = None


class TrialFailed(Exception):
    """A trial ended without a result that can be used."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.cause}: {failure.message}")
        self.failure = failure


def describe(error: BaseException) -> Failure:
    """Classify an exception raised in the target. Class *and* text decide, as torch reuses classes."""
    from advisor.profiles.hooks import program

    kind, text = type(error), str(error)
    message = f"{kind.__name__}: {text}" if text else kind.__name__
    frame = program.user_frame(error)
    return Failure(
        cause=_cause(error, text),
        message=message[:MAX_MESSAGE],
        trace=program.user_traceback(error)[-MAX_TRACEBACK:],
        where=None if frame is None else f"{frame.file}:{frame.line}",
    )


def _cause(error: BaseException, text: str) -> Cause:
    names = {cls.__name__ for cls in type(error).__mro__}
    modules = {cls.__module__.partition(".")[0] + "." + cls.__module__ for cls in type(error).__mro__}
    if "OutOfMemoryError" in names:
        return "oom_device"
    if isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate memory" in text:
        return "oom_host"
    if "unable to allocate shared memory(shm)" in text or "unable to mmap" in text and "/torch_" in text:
        return "shm_full"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "disk_full"
    if "CUDA error" in text or "cudaError" in text:
        return "device_error"
    if any("torch._dynamo" in module or "torch._inductor" in module for module in modules):
        return "compile_failed"
    if isinstance(error, KeyboardInterrupt):
        return "killed"
    frames = traceback.extract_tb(error.__traceback__)
    if frames and "/advisor/" in frames[-1].filename.replace("/tuners/", "/advisor/") and _is_ours(frames[-1].filename):
        return "internal"
    return "user_error"


def _is_ours(filename: str) -> bool:
    import advisor

    return any(filename.startswith(folder) for folder in advisor.__path__)


def from_exit(
    exit_code: int | None, number: int | None, *, oom_kill: bool, peak_rss_bytes: int, asked: bool
) -> Failure:
    """What a process that left no outcome died of.

    Args:
        exit_code: Its exit status, when it ended by itself.
        number: The signal that ended it, else ``None``.
        oom_kill: The cgroup's ``oom_kill`` counter rose meanwhile.
        peak_rss_bytes: Highest resident memory seen.
        asked: Somebody asked for the end (an interrupt).
    """
    if asked:
        return Failure("killed", "interrupted")
    if number == signal.SIGKILL:
        peak = f"peak RSS {peak_rss_bytes / 2**20:.0f} MiB"
        if oom_kill:
            return Failure("oom_host", f"killed by the kernel for lack of memory, {peak}")
        return Failure("oom_host", f"killed, likely out of memory, {peak}")
    if number == signal.SIGBUS and _shm_is_full():
        return Failure("shm_full", "SIGBUS with /dev/shm full")
    if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        return Failure("killed", f"ended by {signal.Signals(number).name} from outside")
    if number is not None:
        return Failure("crash_signal", f"ended by {signal.Signals(number).name}")
    return Failure("user_error", f"ended without a result, exit status {exit_code}")


def _shm_is_full() -> bool:
    import shutil

    return shutil.disk_usage("/dev/shm").free < 2**20
