"""What happens at fault points, as ``ADVISOR_TEST_FAULT`` says; every hit is logged, of all processes.

``ACTION@WHERE``. The action is ``none``, ``kill9``, ``term``, ``exit:N``, ``sleep:S`` or ``raise:CLS``. Where
is a number, the n-th hit of all processes from 1 on; or a name, each hit of that name; or ``NAME#N``.
"""

import builtins
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from advisor.base.fault_points import VARIABLE, install

LOG = "ADVISOR_TEST_FAULT_LOG"
RECORD = 48  # bytes of a line of the log: its place there is the number of the hit


@dataclass
class Injector:
    """Logs each hit, and acts at the one that is meant."""

    action: str
    where: str
    log: Path

    def __call__(self, name: str) -> None:
        """Pass a point."""
        count = self._logged(name)
        place, _, wanted = self.where.partition("#")
        meant = place == str(count) if place.isdigit() else place == name
        if meant and (not wanted or self._of_this_name(name) == int(wanted)):
            self._act()

    def _logged(self, name: str) -> int:
        """The number of this hit: writes that append are whole, and end where the next one begins."""
        fd = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, f"{name} {os.getpid()}".ljust(RECORD - 1).encode() + b"\n")
            return os.lseek(fd, 0, os.SEEK_CUR) // RECORD
        finally:
            os.close(fd)

    def _of_this_name(self, name: str) -> int:
        return names(self.log).count(name)

    def _act(self) -> None:
        kind, _, argument = self.action.partition(":")
        if kind == "kill9":
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "term":
            os.kill(os.getpid(), signal.SIGTERM)
        elif kind == "exit":
            os._exit(int(argument))
        elif kind == "sleep":
            time.sleep(float(argument))
        elif kind == "raise":
            raise getattr(builtins, argument)("a fault was injected")
        elif kind != "none":
            sys.exit(f"no such action: {self.action}")


def names(log: Path) -> list[str]:
    """The points that were passed, in order."""
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


def load() -> None:
    """Do as the environment says; nothing where it says nothing."""
    if VARIABLE in os.environ:
        action, _, where = os.environ[VARIABLE].partition("@")
        install(Injector(action, where, Path(os.environ[LOG])))
