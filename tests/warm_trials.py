"""Trials forked from the warm server: a launcher's supervisor and what it supervises, without their imports.

They are no children of this process and their environment does not show in ``/proc``: tests of who adopts
what, of marks in the environment, and of variables that are read when a process starts do without.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warm import Child, Warm

from advisor.tuners.supervision import supervise
from advisor.tuners.supervision.child_start import isolated

TAKES_DESCRIPTOR = ("--status-fd", "--control-fd", "--pass-fd", "--fd", "advisor.tuners.launching.zygote")


@dataclass
class WarmSubprocess:
    """Stands for the module ``subprocess`` where a launcher starts supervisors."""

    warm: Warm
    DEVNULL: int = subprocess.DEVNULL

    def Popen(
        self,
        command: Sequence[str],
        *,
        pass_fds: Sequence[int],
        cwd: str,
        env: Mapping[str, str],
        **others: Any,
    ) -> Child:
        """Fork what ``command`` would start: a supervisor of a Python module."""
        assert list(command[:4]) == [sys.executable, "-P", "-m", supervise.__name__]
        numbers = ",".join(map(str, pass_fds))
        return self.warm.start(__file__, numbers, *command[4:], cwd=cwd, env=env, passes=pass_fds)


def main() -> None:
    """Be the supervisor; what it supervises is forked from it. The last argument has the descriptors here."""
    before, *command, here = sys.argv[1:]
    sys.path.remove(str(Path(__file__).parent))
    renamed = dict(zip(before.split(","), here.split(","), strict=True))
    arguments = [
        renamed[each] if word in TAKES_DESCRIPTOR else each
        for word, each in zip(["", *command], command, strict=False)
    ]
    options, (_, _, _, module, *its) = supervise._parse(arguments)
    isolating = supervise._isolating(options)

    def trial() -> int | None:
        if isolating is not None and (code := isolated(isolating)):
            return code
        os.close(options.status_fd)
        os.close(options.control_fd)
        sys.argv = [module, *its]
        importlib.import_module(module).main()
        return None

    supervise.guard(
        trial,
        parent=os.getppid(),
        stdout=options.stdout,
        stderr=options.stderr,
        status_fd=options.status_fd,
        control_fd=options.control_fd,
        close=options.pass_fd,
    )


if __name__ == "__main__":
    main()
