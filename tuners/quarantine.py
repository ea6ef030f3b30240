"""What a process that no signal ends means for the device that it was measured on."""

from advisor.errors import EnvironmentProblem
from advisor.tuners.processes import KILL_WAIT_S


class Quarantined(EnvironmentProblem):
    """Nothing more is measured there in this run: the process may hold memory, or compute.

    Args:
        stuck: How many processes are left.
        device: What they were measured on, in words.
    """

    def __init__(self, stuck: int, device: str) -> None:
        several = "es" if stuck > 1 else ""
        super().__init__(
            f"{stuck} process{several} of a trial did not end within {KILL_WAIT_S:.0f} s of SIGKILL: nothing "
            f"more is measured on {device} in this run",
            cause="a process that waits for a disk or a driver within the kernel cannot be ended",
            hint="`ps -eo pid,stat,wchan,args` shows it with state D; restart the machine if it stays",
            code="quarantined",
        )
