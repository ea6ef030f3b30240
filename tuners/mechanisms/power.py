"""The power limit of a GPU: a setting of the device, which outlives the process that makes it.

Started as ``python -P -m advisor.tuners.mechanisms.power PID UUID WATTS`` it is a guard: it waits for the
end of a process and then puts the limit back.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

READY = b"ready\n"


class PowerError(Exception):
    """A limit cannot be read or set; the text says why."""


@dataclass(frozen=True)
class Limit:
    """The limit of one GPU, and what it may be set to, in watts."""

    uuid: str
    watts: int
    lowest: int
    highest: int


def read_power_limit(visible: str | None) -> Limit:
    """The limit of the one GPU that a program may use.

    Args:
        visible: ``CUDA_VISIBLE_DEVICES``; ``None`` where it is not set.

    Raises:
        PowerError: No GPU or several are visible, or its driver does not tell.
    """
    with _nvml() as nvml:
        handle = _only_one(nvml, visible)
        lowest, highest = nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
        return Limit(
            uuid=str(nvml.nvmlDeviceGetUUID(handle)),
            watts=round(nvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000),
            lowest=-(-lowest // 1000),
            highest=highest // 1000,
        )


def set_power_limit(uuid: str, watts: int) -> None:
    """Set the limit of a GPU.

    Raises:
        PowerError: This process may not, or the driver rejects the value.
    """
    with _nvml() as nvml:
        nvml.nvmlDeviceSetPowerManagementLimit(nvml.nvmlDeviceGetHandleByUUID(uuid), 1000 * watts)


def put_back_at_exit(uuid: str, watts: int) -> "subprocess.Popen[bytes]":
    """Start a guard that sets this limit once this process has ended, however it ends."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "advisor.tuners.mechanisms.power",
        str(os.getpid()),
        uuid,
        str(watts),
    ]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None  # a pipe was asked for
    if process.stdout.readline() != READY:
        raise PowerError("the process that would put the power limit back could not be started")
    return process


def guard(pid: int, uuid: str, watts: int) -> None:
    """Wait for the end of a process, then set the limit; signals that end a trial are ignored meanwhile."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with _nvml():  # once begun, setting takes no time
        ended = os.pidfd_open(pid)
        os.write(sys.stdout.fileno(), READY)
        select.select([ended], [], [])
        set_power_limit(uuid, watts)


@contextmanager
def _nvml() -> Iterator[Any]:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise PowerError(f"no NVIDIA driver answers: {error}") from None
    try:
        yield pynvml
    except pynvml.NVMLError as error:
        raise PowerError(str(error)) from None
    finally:
        pynvml.nvmlShutdown()


def _only_one(nvml: Any, visible: str | None) -> Any:
    """NVML's handle of the only visible device; the order of several is not that of CUDA."""
    entries = None if visible is None else [entry.strip() for entry in visible.split(",") if entry.strip()]
    count = nvml.nvmlDeviceGetCount() if entries is None else len(entries)
    if count != 1:
        raise PowerError(f"{count} GPUs are visible; set CUDA_VISIBLE_DEVICES to one")
    entry = entries[0] if entries else "0"
    if entry.isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(entry))
    return nvml.nvmlDeviceGetHandleByUUID(entry)


if __name__ == "__main__":
    guard(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
