"""One GPU, or one set of CPUs, is measured by one tuner of this host at a time, whoever started it.

A lock is a file per GPU or set of CPUs, in a folder that all users of the host share. It is taken with
``flock`` and so belongs to the open file: a supervisor that inherits the descriptor keeps it for as long as a
trial may live, and it is free when the last process that has it is gone, however that ended. The file itself
stays, and says who measures; what it says serves messages alone, for anyone may have written it.

``filelock`` is not used here: it empties the file of a lock that another process holds, and it does not let
another process inherit one.
"""

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from advisor.base.durations import write_duration
from advisor.base.errors import EnvironmentProblem, clean

FOLDER_VARIABLE = "ADVISOR_LOCKS"  # a folder for the locks; for tests, which run beside others
SHARED = (Path("/run/lock"), Path("/tmp"))  # the same for every user; TMPDIR is not
NOTICE_S = 2.0  # a run that ends takes as long to let go
RETRY_S = 0.25
HOLDER_BYTES = 1000

_held: dict[str, int] = {}
"""Descriptors of the locks that this process has."""


@dataclass(frozen=True)
class Held:
    """Locks that are held.

    Attributes:
        descriptors: To be inherited by supervisors, and by nothing that they start.
        waited_s: How long others measured before.
    """

    descriptors: tuple[int, ...]
    waited_s: float


@contextmanager
def holding(
    names: Sequence[str],
    *,
    study: str,
    limit_s: float,
    waiting: Callable[[str, float], None],
    say: Callable[[str], None],
) -> Iterator[Held]:
    """Hold the locks of what is measured; what this process holds already it need not wait for.

    Args:
        names: What is measured, from ``measured_names``, whose order keeps two from waiting for each other.
        study: Named to those who wait for us.
        limit_s: How long to wait for others.
        waiting: Called meanwhile; may raise ``Interrupted``.
        say: Is told once who measures there.

    Raises:
        EnvironmentProblem: Another tuner is still at it, or no lock can be made here.
    """
    began, told = time.monotonic(), False
    folder = lock_folder()
    with ExitStack() as stack:
        for name in names:
            while name not in _held and not _taken(folder, name, study, stack):
                waited = time.monotonic() - began
                message = f"{_holder(folder, name)} measures on {shown(names)}"
                if waited >= limit_s:
                    raise EnvironmentProblem(
                        message,
                        cause=f"waited {write_duration(waited)} for it",
                        hint="wait for its end, or name other CPUs (`taskset -c LIST advisor ...`) "
                        "or another `--device`",
                        code="device_in_use",
                    )
                if not told and waited >= min(NOTICE_S, limit_s / 2):
                    say(f"{message}: waiting, {write_duration(limit_s)} at most")
                    told = True
                waiting(message, waited)
                time.sleep(RETRY_S)
        yield Held(tuple(_held[name] for name in names), time.monotonic() - began)


def measured_names(device: str, gpus: Sequence[str], visible: str | None) -> tuple[str, ...]:
    """What a run measures on: GPUs by UUID, or without them the set of CPUs that it may use (``CPUs 0-3,8``).

    Args:
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        gpus: UUIDs of the GPUs of this host, as NVML counts them.
        visible: ``CUDA_VISIBLE_DEVICES``.
    """
    uuids = _visible(gpus, visible)
    if device == "cpu" or not uuids:
        allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        return (_set_of_cpus(sorted(allowed)),)
    number = re.fullmatch(r"cuda:(\d+)", device)
    if number is not None:
        return (uuids[min(int(number[1]), len(uuids) - 1)],)
    return tuple(sorted(uuids))


def lock_folder() -> Path:
    """Where all users of this host look for locks."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    return next((folder for folder in SHARED if os.access(folder, os.W_OK | os.X_OK)), SHARED[-1])


def shown(names: Sequence[str]) -> str:
    """What is measured on, for a message."""
    return ", ".join(clean(name, 60) for name in names)


def _set_of_cpus(numbers: Sequence[int]) -> str:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    text = ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)
    return f"CPU{'s' if len(numbers) > 1 else ''} {text}"


def _visible(gpus: Sequence[str], visible: str | None) -> list[str]:
    """The GPUs that CUDA shows to this process, in its order; it stops at the first it does not know."""
    if visible is None:
        return list(gpus)
    found: list[str] = []
    for word in filter(None, (part.strip() for part in visible.split(","))):
        if word.isdigit() and int(word) < len(gpus):
            found.append(gpus[int(word)])
        elif word.startswith("MIG-"):
            found.append(word)
        elif word.startswith("GPU-") and any(uuid.startswith(word) for uuid in gpus):
            found.append(next(uuid for uuid in gpus if uuid.startswith(word)))
        else:
            break
    return list(dict.fromkeys(found))


def _taken(folder: Path, name: str, study: str, stack: ExitStack) -> bool:
    """Take a lock, which ``stack`` gives back, unless another process has it."""
    path = folder / _file_name(name)
    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return False
        raise _unusable(path, error) from None
    _held[name] = descriptor
    stack.callback(lambda: os.close(_held.pop(name)))
    with suppress(OSError):  # a full disk keeps nobody from measuring
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "study": clean(study, 100)}).encode(), 0)
    return True


def _opened(path: Path) -> int:
    """The file, made where it is missing so that all users can lock it; never one that a link leads to."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        with suppress(FileExistsError):
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(descriptor, 0o666)  # whatever the umask: it holds nothing but who measures
            return descriptor
        # Without O_CREAT: the kernel may deny that for a file of another user (fs.protected_regular).
        return os.open(path, flags)
    except OSError as error:
        raise _unusable(path, error) from None


def _unusable(path: Path, error: OSError) -> EnvironmentProblem:
    return EnvironmentProblem(
        "the lock that keeps two tuners from one device cannot be used",
        where=clean(str(path)),
        cause=clean(error.strerror or str(error)),
        hint=_way_out(path.parent),
        code="lock",
    )


def _way_out(folder: Path) -> str:
    if folder.is_dir():
        return "have the owner of that path remove it"
    if os.environ.get(FOLDER_VARIABLE):
        return f"{FOLDER_VARIABLE} names no folder: make it, or unset the variable"
    return f"make the folder {clean(str(folder))}"


def _holder(folder: Path, name: str) -> str:
    """Who holds a lock, as its file says: ``study 'train' (process 4242)``."""
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        descriptor = os.open(folder / _file_name(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            said = json.loads(os.pread(descriptor, HOLDER_BYTES, 0))
        finally:
            os.close(descriptor)
        pid, study = said.get("pid"), said.get("study")
        if isinstance(pid, int) and isinstance(study, str):
            return f"study '{clean(study, 100)}' (process {pid})"
    return "another tuner"


def _file_name(name: str) -> str:
    return f"advisor-{re.sub(r'[^A-Za-z0-9._-]', '_', name)[:100]}.lock"
