"""What a process that no signal ends means for the device that it was measured on."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from advisor.errors import EnvironmentProblem
from advisor.tuners.processes import KILL_WAIT_S

HELD_BYTES = 64 * 2**20  # ours: a process that uses CUDA at all holds more, and a driver at rest changes less


class Quarantined(EnvironmentProblem):
    """Nothing more is measured there in this run: the process may hold memory, or compute.

    Args:
        stuck: How many processes are left.
        device: What they were measured on, in words.
    """

    def __init__(self, stuck: int, device: str) -> None:
        super().__init__(
            f"{_did_not_end(stuck)}: nothing more is measured on {device} in this run",
            cause="a process that waits for a disk or a driver within the kernel cannot be ended",
            hint="`ps -eo pid,stat,wchan,args` shows it with state D; restart the machine if it stays",
            code="quarantined",
        )


def went_on(stuck: int, left_out: Sequence[str], remaining: Sequence[str]) -> str:
    """What to tell where other GPUs are there to measure on.

    Args:
        stuck: How many processes are left.
        left_out: UUIDs of the GPUs that they hold.
        remaining: UUIDs of the others.
    """
    return (
        f"{_did_not_end(stuck)}: {', '.join(left_out)} is left out; from now on everything is measured on "
        f"{', '.join(remaining)}, the baseline beside each change"
    )


def free_of(before: Mapping[str, int], now: Mapping[str, int]) -> tuple[str, ...]:
    """The GPUs to go on with; empty where it cannot be told which one a process still holds.

    A GPU that is not there any more is not among them.

    Args:
        before: Bytes in use by UUID, from before anything was started there.
        now: The same after everything was ended that can be ended.
    """
    free = tuple(uuid for uuid in before if uuid in now and now[uuid] - before[uuid] < HELD_BYTES)
    return free if len(free) < len(before) else ()


def used_bytes(uuids: Sequence[str]) -> dict[str, int]:
    """Device memory in use by UUID, as the driver counts it; without what it knows nothing of."""
    if not uuids:
        return {}
    import pynvml

    found: dict[str, int] = {}
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            for uuid in uuids:
                with suppress(pynvml.NVMLError):
                    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                    found[uuid] = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
        finally:
            pynvml.nvmlShutdown()
    return found


def _did_not_end(stuck: int) -> str:
    several = "es" if stuck > 1 else ""
    return f"{stuck} process{several} of a trial did not end within {KILL_WAIT_S:.0f} s of SIGKILL"
