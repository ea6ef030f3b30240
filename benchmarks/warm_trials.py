"""Trials whose measurements are written down, forked from one small process so that thousands take minutes.

Each runs under a supervisor and talks over a channel like any other; only what it answers is no measurement.
Started as a program this is that small process.
"""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "faults"))

import scripted_trial

from advisor.tuners.supervision import supervise
from advisor.tuners.trial.channel import Channel
from advisor.tuners.trial.spec import TrialSpec

DESCRIPTORS = 3  # channel, status, control
SPREAD = 0.05  # a value of a knob changes the speed by at most that much


class WarmTrials:
    """The tuner's handle: what ``Launcher`` needs of a warm process to fork trials from."""

    can_fork = True

    def __init__(self, facts: Path) -> None:
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, __file__, str(theirs.fileno()), str(facts)]
        self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
        theirs.close()

    def fork(self, spec: Path, channel: int, status: int, control: int) -> None:
        """Start the trial of ``spec``; the three descriptors are its own from now on."""
        socket.send_fds(self._socket, [str(spec).encode()], [channel, status, control])

    @property
    def supervisor(self) -> int:
        """Pid of the small process."""
        return self._process.pid

    def end_orphans(self) -> None:
        """No supervisor is killed here."""

    def close(self) -> None:
        """End the small process."""
        self._socket.close()
        self._process.wait()


def step_s(config: dict[str, Any]) -> float:
    """Seconds of a step: each value of a knob has a factor of its own, each pair of them a smaller one."""
    parts = sorted(f"{name}={value}" for name, value in config.items())
    pairs = [f"{one} {other}" for one in parts for other in parts if one < other]
    speed = sum(map(_weight, parts)) + sum(map(_weight, pairs)) / max(1, len(parts))
    return float(scripted_trial.STEP_S * (1 - SPREAD * speed / 2))


def _weight(text: str) -> float:
    """Between -1 and 1, the same in every run."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**31 - 1


def main() -> None:
    """Entry of the small process: fork a supervised trial whenever one is asked for."""
    connection, facts = socket.socket(fileno=int(sys.argv[1])), json.loads(Path(sys.argv[2]).read_text())
    scripted_trial.step_s = step_s
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, 65536, DESCRIPTORS)
        if not data:
            return
        mother = os.getpid()
        if os.fork() == 0:
            connection.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _guard(Path(data.decode()), descriptors, facts, mother)
        for descriptor in descriptors:
            os.close(descriptor)


def _guard(file: Path, descriptors: list[int], facts: dict[str, Any], mother: int) -> None:
    channel, status, control = descriptors
    spec = TrialSpec.read(file)

    def trial() -> None:
        os.close(status)
        os.close(control)
        scripted_trial.ScriptedTrial(spec, Channel(socket.socket(fileno=channel)), facts).run()

    supervised = partial(supervise.guard, trial, parent=mother, status_fd=status, control_fd=control)
    folder = Path(spec.folder)
    supervised(stdout=folder / "stdout.log", stderr=folder / "stderr.log", close=[channel])


if __name__ == "__main__":
    main()
