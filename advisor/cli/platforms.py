"""Platforms on which no program can be run, or is watched over less well than on Linux."""

import sys

from advisor.base.errors import EnvironmentProblem
from advisor.cli.output import warn

WEAKER = (
    "{name}: what a program writes is written for real, and processes that hide from their group may outlive "
    "a trial; advisor was tested on Linux alone"
)


def check_platform(command: str, platform: str = sys.platform) -> None:
    """Refuse to run a program where its processes cannot be watched over, and warn where that is weaker.

    Args:
        command: The command that asks.
        platform: As ``sys.platform`` names it.

    Raises:
        EnvironmentProblem: Windows.
    """
    if platform in ("win32", "cygwin"):
        raise EnvironmentProblem(
            f"`advisor {command}` does not run programs on Windows yet",
            hint="use WSL, or record a trace with torch.profiler: `advisor profile trace.json`",
            code="platform",
        )
    if platform != "linux":
        warn(WEAKER.format(name="macOS" if platform == "darwin" else platform))
