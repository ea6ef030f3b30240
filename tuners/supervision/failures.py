"""Why a trial failed, from the closed list of causes.

The child describes exceptions, the parent what it sees from outside: signals, deadlines, silence.
"""

import errno
import re
import resource
import signal
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from advisor.tuners.supervision.child_start import NO_COMMAND, NOT_ISOLATED
from advisor.tuners.supervision.ended import Ended
from advisor.tuners.supervision.process_tree import RSS_UNIT, memory_limit

MAX_MESSAGE = 2000
MAX_TRACEBACK = 20_000
MAX_TAIL = 4096  # bytes of a log that are searched for its last line

Cause = Literal[
    "user_error", "oom_device", "oom_host", "shm_full", "disk_full", "timeout", "hang_collective", "killed",
    "crash_signal", "device_error", "compile_failed", "compile_fell_back", "not_applied", "numerics_mismatch",
    "non_finite", "interference", "throttled", "storage", "environment", "internal",
]  # fmt: skip

USER_CAUSES: frozenset[Cause] = frozenset(
    {"user_error", "crash_signal", "hang_collective", "device_error", "compile_failed", "compile_fell_back",
     "numerics_mismatch", "non_finite"}
)  # fmt: skip
RESOURCE_CAUSES: frozenset[Cause] = frozenset({"oom_device", "oom_host", "shm_full", "disk_full", "timeout"})
DISRUPTIONS: frozenset[Cause] = frozenset({"killed", "interference"})

WOULD_CHANGE = "the program would change a file that exists:"
IN_CHILDREN = "no step was taken in the program's own process"
NO_ROOM = "the budget has no room"
LIKELY = "killed, likely out of memory"
LOST_DEVICE = re.compile(
    r"(?i)(device|GPU) (is )?lost|fallen off the bus|no CUDA-capable device is detected|uncorrectable ECC"
)
BLOCKING = "CUDA_LAUNCH_BLOCKING"  # kernels run behind the program: the traceback shows a later line


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


class OutOfTime(TrialFailed):
    """A process was not started, since its measurement would not end within the budget, or was ended with it.

    Args:
        what: There is no room for.
    """

    def __init__(self, what: str = "for one more process") -> None:
        super().__init__(Failure("timeout", f"{NO_ROOM} {what}"))


def not_applied(refused: Mapping[str, str]) -> TrialFailed:
    """The failure of a measurement in which these knobs declined, by id with the reason."""
    told = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    return TrialFailed(Failure("not_applied", told))


def would_change(path: Path) -> Failure:
    """The failure of a trial that ended before it changed a file that nothing isolates."""
    return Failure("environment", f"{WOULD_CHANGE} {path}", where=str(path))


def is_disruption(failure: Failure) -> bool:
    """Whether it came from outside, so that the same trial may well succeed."""
    lost = failure.cause == "device_error" and LOST_DEVICE.search(failure.message) is not None
    return lost or failure.cause in DISRUPTIONS


def stays_failed(cause: Cause | None, message: str) -> bool:
    """Whether a configuration that failed so is not run again when its study is resumed.

    What was killed without a sign of the kernel is only likely to have run out of memory, and another budget
    has more room.
    """
    if cause is None or is_disruption(Failure(cause, message)):
        return False
    return (cause in USER_CAUSES or cause in RESOURCE_CAUSES) and not message.startswith((LIKELY, NO_ROOM))


def describe(error: BaseException) -> Failure:
    """Classify an exception raised in the target. Class *and* text decide, as torch reuses classes."""
    from advisor.profiles.hooks.surroundings import program

    kind, text = type(error), str(error)
    if isinstance(error, PermissionError) and WOULD_CHANGE in text:  # a child of it was refused
        return would_change(Path(text.rpartition(f"{WOULD_CHANGE} ")[2].splitlines()[0]))
    message = f"{kind.__name__}: {text}" if text else kind.__name__
    frame = program.user_frame(error)
    cause = _cause(error, text)
    message = message[:MAX_MESSAGE]
    if cause == "device_error" and BLOCKING not in message and not LOST_DEVICE.search(message):
        message += f"; run it with {BLOCKING}=1 to see which line it is"
    if cause == "oom_host":
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT
        message += f"; {_used(own, memory_limit())}"
    return Failure(
        cause=cause,
        message=message,
        trace=program.user_traceback(error)[-MAX_TRACEBACK:],
        where=None if frame is None else f"{frame.file}:{frame.line}",
    )


def describe_ours(error: Exception) -> Failure:
    """Classify what was raised by us, before the target's first line: never the user's error."""
    failure = describe(error)
    trace = "".join(traceback.format_exception(error))[-MAX_TRACEBACK:]
    cause: Cause = "internal" if failure.cause in USER_CAUSES else failure.cause
    return replace(failure, cause=cause, trace=trace, where=None)


def _cause(error: BaseException, text: str) -> Cause:
    names = {cls.__name__ for cls in type(error).__mro__}
    modules = {cls.__module__.partition(".")[0] + "." + cls.__module__ for cls in type(error).__mro__}
    if "OutOfMemoryError" in names:
        return "oom_device"
    if isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate memory" in text:
        return "oom_host"
    if "unable to allocate shared memory(shm)" in text or ("unable to mmap" in text and "/torch_" in text):
        return "shm_full"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "disk_full"
    if "CUDA error" in text or "cudaError" in text:
        return "device_error"
    if any("torch._dynamo" in module or "torch._inductor" in module for module in modules):
        return "compile_failed"
    if isinstance(error, KeyboardInterrupt):
        return "killed"
    if isinstance(error, AssertionError) and _is_ours(error):
        return "internal"  # of other kinds nobody can tell: our wrappers call the user's functions
    return "user_error"


def _is_ours(error: BaseException) -> bool:
    from advisor.profiles.hooks.surroundings import program

    frames = traceback.extract_tb(error.__traceback__)
    ours = Path(__file__).resolve().parents[1], Path(program.__file__).resolve().parents[3]
    return bool(frames) and any(Path(frames[-1].filename).resolve().is_relative_to(path) for path in ours)


def from_exit(ended: Ended | None, last_line: str, *, started: bool, asked: bool = False) -> Failure:
    """What a process that left no outcome died of.

    Args:
        ended: What its supervisor saw; ``None`` when that was killed.
        last_line: The last line of its errors.
        started: The target's own code had begun; before that an exit is ours to explain.
        asked: Somebody asked for the end (an interrupt).
    """
    if asked:
        return Failure("killed", "interrupted")
    if ended is None:
        return Failure("killed", "its supervisor was killed from outside")
    if ended.signal is not None:
        return _from_signal(ended.signal, ended)
    if not started and ended.exit_code == NOT_ISOLATED:
        return Failure("environment", last_line or "writes could not be isolated")
    if not started and ended.exit_code == NO_COMMAND:
        return Failure("environment", f"no process could be started: {last_line}")
    if not started:
        said = f": {last_line}" if last_line else ""
        return Failure("internal", f"ended before the program began, exit status {ended.exit_code}{said}")
    return Failure("user_error", f"ended without a result, exit status {ended.exit_code}")


def line_lost(host: str) -> Failure:
    """A rank on another machine whose line ended without a word of who looks after it there."""
    return Failure("killed", f"the line to {host} broke: the machine, or the network to it, is gone")


def read_tail(log: Path) -> str:
    """The last line of a log that is not empty; an empty text where there is none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(log.stat().st_size - MAX_TAIL, 0))
            lines = stream.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _from_signal(number: int, ended: Ended) -> Failure:
    if number == signal.SIGKILL:
        peak = _used(ended.peak_rss_bytes, ended.memory_limit_bytes)
        if ended.oom_kill:
            return Failure("oom_host", f"killed by the kernel for lack of memory, {peak}")
        return Failure("oom_host", f"{LIKELY}, {peak}")
    if number == signal.SIGBUS and _shm_is_full():
        return Failure("shm_full", "SIGBUS with /dev/shm full")
    name = signal.Signals(number).name
    if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        return Failure("killed", f"ended by {name} from outside")
    return Failure("crash_signal", f"ended by {name}")


def _used(peak_bytes: int, limit_bytes: int) -> str:
    """The resident memory of the largest process at its highest, and what was allowed where that is known."""
    allowed = f" of {limit_bytes / 2**20:.0f} MiB" if limit_bytes else ""
    return f"peak RSS {peak_bytes / 2**20:.0f} MiB{allowed}"


def _shm_is_full() -> bool:
    import shutil

    return shutil.disk_usage("/dev/shm").free < 2**20
